"""What took the time of a run until some instant, for errors about deadlines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeProgress:
    """One node of a run, as far as it had come.

    Attributes:
        node_id: Its path in the run.
        name: Of its call site.
        took_s: Time since it was made, or since what it waited for had ended.
        live: It had not ended.
        produced_tokens: Of a generation.
        max_tokens: Most that it may produce; 0 for what generates nothing.
        slack_s: Of a live node: its deadline less the instant at which it would be done at its
            pace, all of its tokens or its timeout used; below 0 by how much it would be late. None
            where it has no deadline or has shown no pace.
    """

    node_id: str
    name: str
    took_s: float
    live: bool = False
    produced_tokens: int = 0
    max_tokens: int = 0
    slack_s: float | None = None

    def __str__(self) -> str:
        text = f"{self.name} {self.took_s:.1f} s"
        if self.live and self.max_tokens:
            text += f", {self.produced_tokens}/{self.max_tokens} tokens"
        return text if self.slack_s is None else f"{text} (slack {self.slack_s:+.1f} s)"


@dataclass(frozen=True, slots=True)
class RunProgress:
    """What took the time of a run until now.

    Attributes:
        path: Nodes that waited for one another, first to last; the last one is under way.
        branches: What else was under way, what would be latest first.
    """

    path: tuple[NodeProgress, ...] = ()
    branches: tuple[NodeProgress, ...] = ()

    def __str__(self) -> str:
        """Such as `plan 1.2 s -> report 1.9 s, 212/700 tokens; also under way: news 0.4 s`."""
        text = " -> ".join(map(str, self.path))
        if self.branches:
            shown = ", ".join(map(str, self.branches[:_MOST_BRANCHES]))
            more = len(self.branches) - _MOST_BRANCHES
            text += f"; also under way: {shown}" + (f" and {more} more" if more > 0 else "")
        return text


_MOST_BRANCHES = 8

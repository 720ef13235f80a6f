"""Progress of a run: where its time has gone, for errors about deadlines."""

from __future__ import annotations

from agentrt.base.record import record


@record
class NodeProgress:
    """Progress of one node.

    Attributes:
        node_id: Path in the run.
        name: Name of the call site.
        took_s: Time since the node was made, or since its last dependency ended.
        live: Whether the node is still in flight.
        produced_tokens: Tokens that a generation has produced.
        max_tokens: Limit of a generation's tokens; 0 for other nodes.
        closes: Whether a generation ends by its shortest valid end at a limit.
        slack_s: Slack of a live node: its deadline less its end at the present pace, with all of
            its tokens or its whole timeout used; negative if it would be late. None without a
            deadline, or while there is no pace.
    """

    node_id: str
    name: str
    took_s: float
    live: bool = False
    produced_tokens: int = 0
    max_tokens: int = 0
    closes: bool = False
    slack_s: float | None = None

    def __str__(self) -> str:
        text = f"{self.name} {self.took_s:.1f} s"
        if self.live and self.max_tokens:
            text += f", {self.produced_tokens}/{self.max_tokens} tokens"
        return text if self.slack_s is None else f"{text} (slack {self.slack_s:+.1f} s)"


@record
class RunProgress:
    """Progress of a run: where its time has gone.

    Attributes:
        path: Nodes that waited for one another, first to last; the last one is in flight.
        branches: Other nodes in flight, the latest to end first.
    """

    path: tuple[NodeProgress, ...] = ()
    branches: tuple[NodeProgress, ...] = ()

    @property
    def could_close(self) -> bool:
        """Whether a generation in flight would have ended in time with `on_limit="close"`."""
        live = [part for part in (*self.path, *self.branches) if part.live]
        return any(part.max_tokens and not part.closes for part in live)

    def __str__(self) -> str:
        """Text like `plan 1.2 s -> report 1.9 s, 212/700 tokens; also under way: news 0.4 s`."""
        text = " -> ".join(map(str, self.path))
        if self.branches:
            shown = ", ".join(map(str, self.branches[:_MAX_BRANCHES]))
            more = len(self.branches) - _MAX_BRANCHES
            text += f"; also under way: {shown}" + (f" and {more} more" if more > 0 else "")
        return text


_MAX_BRANCHES = 8

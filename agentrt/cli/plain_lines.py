"""Progress as plain lines, for pipes, files and terminals on which nothing can be redrawn."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from agentrt.base.money import money_text
from agentrt.cli.progress import Progress
from agentrt.cli.results_alone import is_same_file
from agentrt.cli.run_tree.from_events import LiveRunTree
from agentrt.cli.run_tree.node import TreeNode
from agentrt.protocol.events import Event

LINE_EVERY_S = 1.0


class PlainLines(Progress):
    """One line a node at its end; emitted text as it comes. Of several runs only a count."""

    def __init__(self, runs: int, to: TextIO) -> None:
        self._tree = LiveRunTree(runs)
        self._runs = runs
        self._to = to
        self._inside_text = False
        self._counted_at_s: float | None = None

    def on_events(self, events: Sequence[Event]) -> None:
        before = self._tree.runs_done
        self._tree.on_events(events)
        ended = self._tree.take_finished()
        if self._runs > 1:
            if self._tree.runs_done > before:
                self._count()
            return
        for node in ended:
            self._line(plain_line(node, self._tree.tree.currency if self._tree.tree else ""))

    def emit(self, text: str) -> None:
        if self._runs == 1:
            self._to.write(text)
            self._to.flush()
            self._inside_text = not text.endswith("\n")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Begin a line of its own after a question, unless the answer's own line end is shown."""
        self._inside_text = True
        yield
        self._inside_text = not is_same_file(sys.stdin, self._to)

    def close(self) -> None:
        if self._inside_text:
            self._to.write("\n")
        self._inside_text = False
        self._to.flush()

    def _count(self) -> None:
        """Write how many runs are done, once a second at most, and when all are."""
        done, at_s = self._tree.runs_done, self._tree.ended_at_s
        assert at_s is not None
        is_due = self._counted_at_s is None or at_s - self._counted_at_s >= LINE_EVERY_S
        if is_due or done == self._runs:
            self._counted_at_s = at_s
            self._line(self._tree.pace(at_s))

    def _line(self, text: str) -> None:
        self.close()
        self._to.write(text.rstrip() + "\n")
        self._to.flush()


def plain_line(node: TreeNode, currency: str) -> str:
    """A node that has ended, as one line."""
    _, _, path = node.key.split("/", 2)
    spent_ms = ((node.ended_at_s or 0.0) - node.started_at_s) * 1e3
    tokens = f"  {node.tokens} tokens" if node.tokens else ""
    cost = f"  {money_text(node.cost_pico, currency)}" if currency and node.cost_pico else ""
    return f"{path:<28} {node.kind:<8} {node.state:<9} {spent_ms:7.0f} ms{tokens}{cost}"

"""Progress on standard error: a live tree on a terminal, plain lines elsewhere, nothing with -q."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TextIO

from agentrt.analysis import RunRecord
from agentrt.base.clock import Clock, MonotonicClock
from agentrt.base.ids import RunId
from agentrt.base.money import money_text
from agentrt.base.pace import pace_text
from agentrt.cli.results_alone import is_same_file
from agentrt.cli.run_tree.from_events import LiveRunTree
from agentrt.cli.run_tree.node import TreeNode
from agentrt.protocol.events import Event

LINE_EVERY_S = 1.0


class Progress:
    """An observer that shows events, and the text that programs emit; here it shows nothing."""

    def open(self, what: str) -> None:
        """Show what goes on before the first run begins."""

    def on_events(self, events: Sequence[Event]) -> None:
        """Record a batch of events."""

    def emit(self, text: str) -> None:
        """Show text emitted by a program."""

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the terminal to a question meanwhile."""
        yield

    def close(self) -> None:
        """Show the last state; nothing is shown afterwards."""


def progress(
    *,
    quiet: bool,
    runs: int,
    clock: Clock,
    to: TextIO | None = None,
    live: bool | None = None,
    labels: Mapping[RunId, str] | None = None,
    record_of: Callable[[RunId], RunRecord | None] | None = None,
) -> Progress:
    """The progress display for the stream and the environment.

    Args:
        quiet: Show nothing.
        runs: Number of runs; if above one, plain lines only count them.
        clock: Clock of the runs.
        to: Output stream; None is standard error.
        live: Override of the choice by stream and environment.
        labels: Beginning of the rows of each run.
        record_of: The record of a run that is over, for the tree that stays on a terminal; None
            leaves none there.
    """
    to = to or sys.stderr
    if quiet:
        return Progress()
    if live if live is not None else is_live(to, os.environ):
        from agentrt.cli.live_tree import LiveTree  # rich takes 50 ms

        return LiveTree(runs, clock, to, labels, record_of)
    return PlainLines(runs, to)


@contextmanager
def waiting(what: str, *, quiet: bool = False) -> Iterator[None]:
    """Show on a terminal what goes on, and for how long; elsewhere nothing.

    Args:
        what: The work, such as `starting the engine`.
        quiet: Show nothing.
    """
    is_shown = not quiet and is_live(sys.stderr, os.environ)
    shown = progress(quiet=not is_shown, runs=1, clock=MonotonicClock())
    shown.open(what)
    try:
        yield
    finally:
        shown.close()


def is_live(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether rows can be redrawn: a capable terminal, and no CI."""
    return stream.isatty() and environ.get("TERM") != "dumb" and not environ.get("CI")


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
        done, began_s, at_s = self._tree.runs_done, self._tree.began_at_s, self._tree.ended_at_s
        assert began_s is not None
        assert at_s is not None
        is_due = self._counted_at_s is None or at_s - self._counted_at_s >= LINE_EVERY_S
        if is_due or done == self._runs:
            self._counted_at_s = at_s
            self._line(pace_text(done, self._runs, at_s - began_s, "runs done"))

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

"""Progress on standard error: a live tree on a terminal, plain lines elsewhere, nothing with -q."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

from agentrt.analysis import RunRecord
from agentrt.base.clock import Clock, MonotonicClock
from agentrt.base.ids import RunId
from agentrt.cli.progress import Progress


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
    from agentrt.cli.plain_lines import PlainLines

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

"""Progress on standard error: live rows on a terminal, plain lines elsewhere, nothing with -q."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from agentrt.base.clock import Clock
from agentrt.base.ids import RunId
from agentrt.cli.progress_board import Board, BoardRow
from agentrt.cli.results_alone import is_same_file
from agentrt.protocol.events import Event

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

ROWS_SHOWN = 24
COLOURS = {"ok": "green", "failed": "red", "cancelled": "yellow", "decode": "cyan"}


class Progress:
    """An observer that shows events, and the text that programs emit; here it shows nothing."""

    def on_events(self, events: Sequence[Event]) -> None:
        """Record a batch of events."""

    def emit(self, text: str) -> None:
        """Show text emitted by a program."""

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
) -> Progress:
    """The progress display for the stream and the environment.

    Args:
        quiet: Show nothing.
        runs: Number of runs; if above one, only runs are counted.
        clock: Clock of the runs.
        to: Output stream; None is standard error.
        live: Override of the choice by stream and environment.
        labels: Beginning of the rows of each run.
    """
    to = to or sys.stderr
    if quiet:
        return Progress()
    if live if live is not None else is_live(to, os.environ):
        return LiveRows(runs, clock, to, labels)
    return PlainLines(runs, to)


def is_live(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether rows can be redrawn: a capable terminal, and no CI."""
    return stream.isatty() and environ.get("TERM") != "dumb" and not environ.get("CI")


class PlainLines(Progress):
    """One line a node at its end; emitted text as it comes."""

    def __init__(self, runs: int, to: TextIO) -> None:
        self._board = Board()
        self._runs = runs
        self._to = to
        self._inside_text = False

    def on_events(self, events: Sequence[Event]) -> None:
        before = self._board.runs_done
        self._board.on_events(events)
        ended = self._board.take_finished()
        if self._runs > 1:
            if self._board.runs_done > before:
                self._line(f"{self._board.runs_done}/{self._runs} runs done")
            return
        for row in ended:
            self._line(row.line(row.ended_at_s or 0.0))

    def emit(self, text: str) -> None:
        if self._runs == 1:
            self._to.write(text)
            self._to.flush()
            self._inside_text = not text.endswith("\n")

    def close(self) -> None:
        if self._inside_text:
            self._to.write("\n")
        self._inside_text = False
        self._to.flush()

    def _line(self, text: str) -> None:
        self.close()
        self._to.write(text.rstrip() + "\n")
        self._to.flush()


class LiveRows(Progress):
    """A row a node, redrawn a few times a second by rich's own thread.

    Standard output goes above the rows if both are one terminal. Otherwise rich must leave it
    alone: it would write to the terminal what belongs in a file or a pipe.
    """

    def __init__(
        self, runs: int, clock: Clock, to: TextIO, labels: Mapping[RunId, str] | None = None
    ) -> None:
        from rich.console import Console
        from rich.live import Live

        self._board = Board(labels or {})
        self._runs = runs
        self._clock = clock
        self._text = ""
        self._live: Live = Live(
            console=Console(file=to, highlight=False),
            get_renderable=self._picture,
            refresh_per_second=8,
            redirect_stdout=is_same_file(sys.stdout, to),
        )
        self._started = False

    def on_events(self, events: Sequence[Event]) -> None:
        self._board.on_events(events)
        if not self._started:
            self._started = True
            self._live.start()

    def emit(self, text: str) -> None:
        if self._runs == 1:
            self._text += text

    def close(self) -> None:
        if self._started:
            self._started = False
            self._live.stop()

    def _picture(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        parts: list[Any] = []
        if self._runs > 1:
            parts.append(Text(f"{self._board.runs_done}/{self._runs} runs done"))
        rows = list(self._board.rows.values())
        if len(rows) > ROWS_SHOWN:
            rows = crowded(rows)
        now_s = self._clock.now_s()
        parts += [Text(row.line(now_s), style=COLOURS.get(row.state, "")) for row in rows]
        if self._text:
            parts.append(Text(self._text))
        return Group(*parts)


def crowded(rows: Sequence[BoardRow]) -> list[BoardRow]:
    """The rows to show if there are too many: those in flight, then the latest."""
    in_flight = [row for row in rows if row.ended_at_s is None][:ROWS_SHOWN]
    free = ROWS_SHOWN - len(in_flight)
    ended = [row for row in rows if row.ended_at_s is not None]
    return (ended[-free:] if free else []) + in_flight

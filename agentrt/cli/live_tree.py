"""The tree of the runs under way on a terminal, redrawn in place until they are over."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Event as Flag
from threading import RLock, Thread
from typing import TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from agentrt.analysis import RunRecord
from agentrt.base.clock import Clock
from agentrt.base.ids import RunId
from agentrt.base.pace import time_text
from agentrt.cli.progress import Progress
from agentrt.cli.results_alone import is_same_file
from agentrt.cli.run_tree.from_events import LiveRunTree
from agentrt.cli.run_tree.from_record import tree_of_record
from agentrt.cli.run_tree.glyphs import glyphs_for
from agentrt.cli.run_tree.layout import Line, View, tree_lines
from agentrt.cli.run_tree.node import RunTree, TreeNode
from agentrt.protocol.events import Event

LEAST_PAUSE_S = 0.1
MOST_SHARE = 0.006
"""Most of the time that drawing may take."""


class LiveTree(Progress):
    """A row a node under its parent, redrawn a few times a second in a thread of its own.

    Text that programs emit goes above the rows, line by line. So does standard output if both are
    one terminal. Otherwise it must be left alone: it belongs in a file or a pipe.

    The cursor stays visible, so that a killed process leaves the terminal as it was. A terminal
    that takes nothing, as after Ctrl-S, holds up the drawing alone: events never wait for it.

    Args:
        runs: Number of runs.
        clock: Clock of the runs.
        to: The terminal.
        labels: Beginning of the names of each run.
        record_of: The record of a run that is over, for the picture that stays; None leaves none.
    """

    def __init__(
        self,
        runs: int,
        clock: Clock,
        to: TextIO,
        labels: Mapping[RunId, str] | None = None,
        record_of: Callable[[RunId], RunRecord | None] | None = None,
    ) -> None:
        self._runs = runs
        self._clock = clock
        self._record_of = record_of
        self._runs_tree = LiveRunTree(runs, labels)
        self._console = _VisibleCursor(file=to, highlight=False, markup=False, emoji=False)
        self._glyphs = glyphs_for(to.encoding)
        self._with_stdout = is_same_file(sys.stdout, to)
        self._state_lock = RLock()
        self._screen_lock = RLock()
        self._opening: tuple[str, float] = ("", 0.0)
        self._text = ""
        self._live: Live | None = None
        self._pauses = 0
        self._over = Flag()
        self._thread: Thread | None = None

    def open(self, what: str) -> None:
        self._opening = (what, self._clock.now_s())
        self._start()

    def on_events(self, events: Sequence[Event]) -> None:
        with self._state_lock:
            self._runs_tree.on_events(events)
            self._runs_tree.take_finished()  # for lines; here they would only take memory
        if self._thread is None and not self._over.is_set():
            self._start()

    def emit(self, text: str) -> None:
        if self._runs == 1:
            with self._state_lock:
                self._text += text

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Take the tree off the terminal meanwhile."""
        self._pauses += 1
        if self._pauses == 1:
            with suppress(OSError):  # the terminal is closed
                self._hide()
                self._write_all()
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses and self._thread is not None and not self._over.is_set():
                self._show()

    def close(self) -> None:
        if self._thread is None or self._over.is_set():
            return
        self._over.set()
        self._thread.join()
        with suppress(OSError):  # the terminal is closed
            self._hide()
            self._write_all()
            lines = self._final_lines()
            if lines:
                self._console.print(DrawnLines(lambda: lines), end="")

    def _start(self) -> None:
        self._show()
        self._thread = Thread(target=self._redraw, name="live-tree", daemon=True)
        self._thread.start()

    def _show(self) -> None:
        with self._screen_lock:
            self._live = Live(
                DrawnLines(self._picture),
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=self._with_stdout,
            )
            self._live.start()

    def _hide(self) -> None:
        with self._screen_lock:
            if self._live is not None:
                live, self._live = self._live, None
                live.stop()

    def _redraw(self) -> None:
        """Draw until the runs are over, so seldom that it costs little."""
        pause_s = LEAST_PAUSE_S
        while not self._over.wait(pause_s):
            began_s = self._clock.now_s()
            try:
                self.draw()
            except OSError:  # the terminal is closed
                return
            pause_s = pause_after(self._clock.now_s() - began_s)

    def draw(self) -> None:
        """Draw the present state, unless a question has the terminal."""
        with self._screen_lock:
            if self._live is None:
                return
            with self._state_lock:
                rows, self._text = rows_and_rest(self._text, self._console.width)
            if rows:
                self._write(rows)  # draws the tree below anew
            else:
                self._live.refresh()

    def _write(self, rows: Sequence[str]) -> None:
        self._console.print(Text("\n".join(rows)), soft_wrap=True)

    def _write_all(self) -> None:
        """Write the emitted text that is left, a last line that may still grow too."""
        with self._state_lock:
            text, self._text = self._text, ""
        rows, rest = rows_and_rest(text, self._console.width)
        if rows or rest:
            self._write([*rows, rest] if rest else rows)

    def _picture(self) -> list[Line | str]:
        with self._state_lock:
            lines = self._lines()
            if self._text:
                _, rest = rows_and_rest(self._text, self._console.width)
                lines.append("".join(char if char.isprintable() else " " for char in rest))
        return [*lines, " "]  # the cursor rests on a line of its own

    def _lines(self) -> list[Line | str]:
        width, height = self._console.size
        state = self._runs_tree
        if state.tree is None:
            what, since_s = self._opening
            return [f"{what} {time_text(self._clock.now_s() - since_s)}"] if what else []
        notes = tuple(self._notes())
        view = View(width, height - 3, self._clock.now_s(), self._glyphs, notes=notes)
        return [*tree_lines(state.tree, view, state.by_interest(), state.in_flight())]

    def _notes(self) -> Iterable[str]:
        """Lines below the tree: the pace of many runs, and the engine's last step."""
        state = self._runs_tree
        if self._runs > 1 and state.began_at_s is not None:
            yield state.pace(self._clock.now_s())
        last = state.step
        if last is not None and last.step is not None:
            batch = last.step.prefill_tokens + last.step.decode_tokens
            yield (
                f"engine: step {last.step.index}, batch {len(last.step.requests)}, "
                f"{batch} tokens, {last.step.waiting} waiting, "
                f"{last.free_pages + last.evictable_pages} KV pages free"
            )

    def _final_lines(self) -> list[Line | str]:
        if self._record_of is None:
            return []
        state = self._runs_tree
        if self._runs > 1:
            state.end_of_all("cancelled", self._clock.now_s())
        tree, wanted = state.tree, state.by_interest()
        record = None
        if self._runs == 1 and state.run_id is not None:
            record = self._record_of(state.run_id)
        if record is not None and record.finished is not None:
            tree = tree_of_record(record)
            wanted = iter(most_telling(tree)) if tree is not None else iter(())
        if tree is None:
            return []
        width, height = self._console.size
        view = View(width, max(8, height // 2), self._clock.now_s(), self._glyphs)
        return [*tree_lines(tree, view, wanted)]


def most_telling(tree: RunTree) -> list[TreeNode]:
    """The nodes of a finished run: failed ones first, then the critical path, then the longest."""
    nodes, at = [tree.root], 0
    while at < len(nodes):
        nodes += nodes[at].children
        at += 1
    return sorted(nodes, key=_telling)


def _telling(node: TreeNode) -> tuple[bool, bool, float]:
    length_s = 0.0 if node.ended_at_s is None else node.ended_at_s - node.started_at_s
    return (node.state != "failed", not node.critical, -length_s)


def pause_after(cost_s: float) -> float:
    """Pause after a picture that took `cost_s`, so that drawing takes its share at most."""
    return max(LEAST_PAUSE_S, cost_s / MOST_SHARE)


def rows_and_rest(text: str, width: int) -> tuple[list[str], str]:
    """Rows that a growing text has filled, and the rest, which is shorter than a row.

    Complete lines stay whole. A line that still grows is broken between words, so that all of it
    can be read as it comes.
    """
    lines, newline, rest = text.rpartition("\n")
    rows = lines.split("\n") if newline else []
    while cell_len(rest) >= width:
        fitting = len(set_cell_size(rest, width - 1).rstrip())
        cut = rest.rfind(" ", 1, fitting + 1)
        cut = cut if cut > 0 else max(1, fitting)
        rows.append(rest[:cut])
        rest = rest[cut:].removeprefix(" ")
    return rows, rest


class _VisibleCursor(Console):
    """A console that never hides the cursor."""

    def show_cursor(self, show: bool = True) -> bool:
        return False


class DrawnLines:
    """Lines as rich draws them, without its layout, which would cost ten times as much.

    Args:
        lines: Gives the lines each time that they are drawn.
    """

    def __init__(self, lines: Callable[[], Sequence[Line | str]]) -> None:
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self._lines():
            if isinstance(line, str):
                yield Segment(line)
            else:
                for piece in line:
                    yield Segment(piece.text, Style.parse(piece.style) if piece.style else None)
            yield Segment.line()

"""The live tree on a terminal: drawn in place, text above it, and a tidy picture in the end."""

import io
import sys
from random import Random
from threading import Event, Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from agentrt.analysis import RunRecord
from agentrt.base.clock import FakeClock
from agentrt.base.ids import NodeId, RunId
from agentrt.cli.live_tree import LEAST_PAUSE_S, MOST_SHARE, LiveTree, pause_after, rows_and_rest
from agentrt.cli.progress_display import waiting
from agentrt.protocol import events as protocol_events
from agentrt.protocol.events import NodeDeclared, RunStarted
from tests.oracles.random_programs import random_body
from tests.oracles.random_runs import play
from tests.oracles.statements import WaitStatement, Work
from tests.oracles.terminal_screen import TerminalScreen

COLUMNS, ROWS = 80, 24
PLAN = (
    Work("generate", queue_s=0.1, prefill_s=0.1, decode_s=0.2, items=1),
    WaitStatement(0, 0),
    Work("tool", plan=(0, 0), decode_s=0.4),
    Work("generate", deps=(1,), decode_s=0.2),
)


class Terminal(io.StringIO):
    """A terminal that keeps what it was sent."""

    encoding = "utf-8"

    def __init__(self) -> None:
        super().__init__()
        self._screen = TerminalScreen(COLUMNS, ROWS)
        self._fed = 0

    def isatty(self) -> bool:
        return True

    def screen(self) -> TerminalScreen:
        """What is to be seen now."""
        output = self.getvalue()
        self._screen.feed(output[self._fed :])
        self._fed = len(output)
        return self._screen


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name in ("NO_COLOR", "FORCE_COLOR", "CI", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (("TERM", "xterm-256color"), ("COLUMNS", "80"), ("LINES", "24")):
        monkeypatch.setenv(name, value)
    return Terminal()


def shown(
    terminal: Terminal, events: list[protocol_events.Event], *, runs: int = 1, keep: bool = True
) -> LiveTree:
    record = RunRecord()
    record.on_events(events)
    record_of = (lambda run_id: record if run_id == record.run_id else None) if keep else None
    tree = LiveTree(runs, FakeClock(0.7), terminal, record_of=record_of)
    tree.open("starting the engine")
    return tree


def test_the_tree_that_stays_is_the_finished_run(terminal: Terminal) -> None:
    events = play(PLAN, start_s=0.0)
    tree = shown(terminal, events)
    for event in events:
        tree.on_events([event])
        tree.draw()
    tree.close()
    screen = terminal.screen()
    assert screen.text.splitlines() == [
        "                        0 to 1.00 s               time tokens tok/s    KV cached",
        "root        ok          ──────────────────────  1.00 s     40    40",
        "├ generate0 ok        * ··▒▒█████               400 ms     20    95   120     60",
        "├ tool1     ok        *         ■■■■■■■■■■      400 ms",
        "└ generate2 ok        *                  █████  200 ms     20    95   120     60",
        "· queue  ▒ prefill  █ decode  ■ tool  * critical path",
    ]
    assert screen.colours
    assert not screen.hidden_cursor
    assert screen.wrapped == 0


def test_what_is_under_way_is_drawn_in_place(terminal: Terminal) -> None:
    events = play(PLAN, start_s=0.0)
    tree = shown(terminal, events)
    tree.draw()
    assert terminal.screen().text == "starting the engine 1 s"
    middle = next(at for at, one in enumerate(events) if type(one).__name__ == "ToolStarted")
    tree.on_events(events[: middle + 1])
    tree.draw()
    tree.draw()
    lines = terminal.screen().text.splitlines()
    assert [line.split()[:3] for line in lines[1:4]] == [
        ["root", "running", "──────────────────────"],
        ["├", "generate0", "ok"],
        ["└", "tool1", "tool"],
    ]
    assert lines[-1].startswith("engine: step 1, batch 1, 40 tokens, 0 waiting")
    tree.close()


def test_a_crowd_fits_the_terminal_at_every_instant(terminal: Terminal) -> None:
    events = play(random_body(Random(6), statements=60, depth=3), start_s=0.0)
    tree = shown(terminal, events)
    for at in range(0, len(events), 7):
        tree.on_events(events[at : at + 7])
        tree.draw()
        screen = terminal.screen()
        assert len(screen.lines) <= ROWS, "nothing has left the screen"
        assert screen.wrapped == 0
    tree.close()
    assert len(terminal.screen().text.splitlines()) <= ROWS // 2


def test_emitted_text_stands_above_the_tree_line_by_line(terminal: Terminal) -> None:
    events = play(PLAN, start_s=0.0)
    tree = shown(terminal, events)
    tree.on_events(events[:4])
    tree.emit("first line\nsecond [b]")
    tree.draw()
    lines = terminal.screen().text.splitlines()
    assert lines[0] == "first line"
    assert lines[-1] == "second [b]"
    tree.emit(" line\n")
    tree.emit("x" * 200)
    tree.on_events(events[4:])
    tree.close()
    screen = terminal.screen()
    assert screen.text.splitlines()[:2] == ["first line", "second [b] line"]
    assert screen.text.count("x" * 79) == 2
    assert screen.text.splitlines()[-1].endswith("* critical path")


def test_without_colour(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    events = play(PLAN, start_s=0.0)
    tree = shown(terminal, events)
    tree.on_events(events)
    tree.close()
    screen = terminal.screen()
    assert "█" in screen.text
    assert not screen.colours


def test_a_question_has_the_terminal_to_itself(terminal: Terminal) -> None:
    events = play(PLAN, start_s=0.0)
    tree = shown(terminal, events)
    tree.on_events(events[:4])
    tree.emit("Said before it.")
    tree.draw()
    with tree.paused(), tree.paused():
        tree.draw()
        assert terminal.screen().text == "Said before it."
        terminal.write("Send it? ")
        before = terminal.getvalue()
        tree.draw()
        assert terminal.getvalue() == before
        terminal.write("yes\n")
    tree.draw()
    lines = terminal.screen().text.splitlines()
    assert lines[:2] == ["Said before it.", "Send it? yes"]
    assert lines[3].startswith("root")
    tree.close()


def test_a_run_that_was_cut_short_keeps_its_state(terminal: Terminal) -> None:
    events = play(PLAN, start_s=0.0)[:4]
    tree = shown(terminal, events)
    tree.on_events(events)
    tree.close()
    tree.close()
    assert terminal.screen().text.splitlines()[1].startswith("root")


def test_nothing_stays_where_the_printer_draws_the_tree(terminal: Terminal) -> None:
    events = play(PLAN, start_s=0.0)
    tree = shown(terminal, events, keep=False)
    tree.on_events(events)
    tree.close()
    assert terminal.screen().text == ""


def test_an_engine_that_does_not_start_leaves_nothing(terminal: Terminal) -> None:
    tree = shown(terminal, [])
    tree.draw()
    tree.close()
    assert terminal.screen().text == ""


def test_a_batch_tells_its_pace(terminal: Terminal) -> None:
    tree = LiveTree(3, FakeClock(2.0), terminal, {RunId("b2"): "2: "}, lambda _: None)
    tree.on_events(play(PLAN, start_s=0.0, run_id="a1"))
    tree.on_events(
        [
            RunStarted(RunId("b2"), "root", "a.py:root", 1.0, 0),
            NodeDeclared(RunId("b2"), NodeId("root"), "program", "root", None, (), "a.py:1", 1.0),
        ]
    )
    tree.draw()
    lines = terminal.screen().text.splitlines()
    assert lines[1].startswith("runs")
    assert lines[2].startswith("├ root +3")
    assert lines[3].startswith("└ 2: root")
    assert lines[5] == "1/3 runs done, 30.0 a minute, about 4 s left"
    tree.close()


def test_a_terminal_that_takes_nothing_holds_up_no_run(terminal: Terminal) -> None:
    entered, goes_on = Event(), Event()

    class Stopped(Terminal):
        def write(self, text: str) -> int:
            if text.strip() and not goes_on.is_set():
                entered.set()
                goes_on.wait(30.0)
            return super().write(text)

    events = play(PLAN, start_s=0.0)
    tree = shown(Stopped(), events)
    drawing = Thread(target=tree.draw)
    drawing.start()
    assert entered.wait(30.0)
    tree.on_events(events)
    tree.emit("said")
    assert drawing.is_alive(), "the terminal still takes nothing"
    goes_on.set()
    drawing.join()
    tree.close()


def test_a_closed_terminal_ends_no_run(terminal: Terminal) -> None:
    class Closed(Terminal):
        is_closed = False

        def write(self, text: str) -> int:
            if self.is_closed:
                raise OSError(5, "Input/output error")
            return super().write(text)

    closed = Closed()
    events = play(PLAN, start_s=0.0)
    tree = shown(closed, events)
    closed.is_closed = True
    tree.on_events(events)
    with tree.paused():
        pass
    tree.close()
    assert sys.stderr is not closed


def test_what_takes_long_is_named_on_a_terminal_while_it_lasts(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_seen = Event()

    class Watched(Terminal):
        def write(self, text: str) -> int:
            written = super().write(text)
            if "compiling" in self.getvalue():
                is_seen.set()
            return written

    watched = Watched()
    monkeypatch.setattr(sys, "stderr", watched)
    with waiting("compiling the kernels"):
        assert is_seen.wait(30.0)
    assert "compiling the kernels 1 s" in watched.getvalue()
    assert watched.screen().text == ""


@pytest.mark.parametrize("is_quiet", [True, False])
def test_elsewhere_nothing_is_said_of_it(is_quiet: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal() if is_quiet else io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    with waiting("compiling the kernels", quiet=is_quiet):
        pass
    assert out.getvalue() == ""


def test_drawing_takes_its_share_at_most() -> None:
    assert pause_after(0.0) == LEAST_PAUSE_S
    for cost_s in (0.001, 0.01, 0.5):
        assert cost_s / (cost_s + pause_after(cost_s)) < MOST_SHARE < 0.01


@pytest.mark.parametrize(
    ("text", "rows", "rest"),
    [
        ("", [], ""),
        ("abc", [], "abc"),
        ("a\n\nb", ["a", ""], "b"),
        ("a line that is whole stays whole\n", ["a line that is whole stays whole"], ""),
        ("one two three four", ["one two", "three"], "four"),
        ("x" * 25, ["x" * 9, "x" * 9], "x" * 7),
        ("報告書報告書", ["報告書報"], "告書"),
    ],
)
def test_a_line_that_grows_fills_rows(text: str, rows: list[str], rest: str) -> None:
    assert rows_and_rest(text, 10) == (rows, rest)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.text(alphabet="ab \n報\u0301", max_size=60), st.integers(3, 20))
def test_no_text_is_lost(text: str, width: int) -> None:
    rows, rest = rows_and_rest(text, width)
    assert "".join([*rows, rest]).replace(" ", "") == text.replace(" ", "").replace("\n", "")
    assert cell_len(rest) < width

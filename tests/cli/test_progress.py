"""Progress is rows from events: live on a terminal, lines elsewhere."""

import io

import pytest

from agentrt.base.clock import FakeClock
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.cli.progress import LiveRows, PlainLines, Progress, crowded, is_live, progress
from agentrt.cli.progress_board import Board, BoardRow
from agentrt.protocol.events import (
    Event,
    FirstToken,
    NodeDeclared,
    NodeFinished,
    RequestSent,
    RunFinished,
    RunStarted,
)
from agentrt.protocol.step_output import Delta, Ledger, StepDone

RUN = RunId("0123456789abcdef")
ROOT, PLAN = NodeId("finance#0"), NodeId("finance#0/plan#0")


def beginning() -> list[Event]:
    return [
        RunStarted(RUN, "finance", "finance.py:finance", 0.0, 0),
        NodeDeclared(RUN, ROOT, "program", "finance", None, (), "finance.py:40", 0.0),
        NodeDeclared(RUN, PLAN, "generate", "plan", ROOT, (), "finance.py:52", 0.1),
        RequestSent(RUN, PLAN, RequestId(1), "embedded", "small", True, 0.1),
        FirstToken(RUN, PLAN, 0.2),
        StepDone(None, (Delta(RequestId(1), (4, 5), "ab"), Delta(RequestId(9), (6,), "c")), ()),
    ]


def end() -> list[Event]:
    return [
        NodeFinished(RUN, PLAN, "ok", 0.5, ledger=Ledger(output_tokens=7)),
        NodeFinished(RUN, ROOT, "ok", 0.6),
        RunFinished(RUN, "ok", 0.6),
    ]


def test_a_row_follows_its_node() -> None:
    board = Board()
    board.on_events(beginning())
    (row,) = board.rows.values()
    assert (row.name, row.state, row.tokens) == ("plan#0", "decode", 2)
    board.on_events(end())
    assert (row.state, row.tokens, board.runs_done) == ("ok", 7, 1)
    assert board.take_finished() == [row]
    assert board.take_finished() == []


def test_plain_lines_tell_each_end_once_and_text_as_it_comes() -> None:
    out = io.StringIO()
    lines = PlainLines(1, out)
    lines.on_events(beginning())
    lines.emit("Hel")
    lines.emit("lo")
    lines.on_events(end())
    lines.close()
    first, second = out.getvalue().splitlines()
    assert first == "Hello"
    assert second.split() == ["plan#0", "generate", "ok", "400", "ms", "7", "tokens"]


def test_a_batch_counts_runs() -> None:
    out = io.StringIO()
    lines = PlainLines(3, out)
    lines.on_events(beginning())
    lines.emit("left out")
    lines.on_events(end())
    assert out.getvalue() == "1/3 runs done\n"


def test_live_rows_draw_on_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    rows = LiveRows(1, FakeClock(1.0), out)
    rows.on_events(beginning())
    rows.emit("Hello")
    rows.on_events(end())
    rows.close()
    assert "plan#0" in out.getvalue()
    assert "Hello" in out.getvalue()


@pytest.mark.parametrize(
    ("terminal", "environ", "live"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "dumb"}, False),
        (True, {"CI": "true"}, False),
        (False, {"TERM": "xterm"}, False),
    ],
)
def test_when_rows_are_redrawn(terminal: bool, environ: dict[str, str], live: bool) -> None:
    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return terminal

    assert is_live(Stream(), environ) is live


def test_quiet_shows_nothing() -> None:
    assert type(progress(quiet=True, runs=1, clock=FakeClock())) is Progress


def test_many_rows_keep_what_is_under_way() -> None:
    rows = [
        BoardRow(RUN, str(i), "tool", 0.0, ended_at_s=None if i == 3 else 1.0) for i in range(99)
    ]
    kept = crowded(rows)
    assert len(kept) == 24
    assert [row.name for row in kept][-2:] == ["98", "3"]


def test_rows_of_a_batch_begin_with_the_number_of_their_record() -> None:
    board = Board({RUN: "12: "})
    board.on_events(beginning())
    (row,) = board.rows.values()
    assert row.name == "12: plan#0"

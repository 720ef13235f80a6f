"""Progress from events: a live tree on a capable terminal, lines elsewhere."""

import io

import pytest

from agentrt.base.clock import FakeClock
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.cli.plain_lines import PlainLines
from agentrt.cli.progress import Progress
from agentrt.cli.progress_display import is_live, progress
from agentrt.protocol.events import (
    Event,
    FirstToken,
    NodeDeclared,
    NodeFinished,
    Outcome,
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


def one_run(number: int, ended_at_s: float, outcome: Outcome = "ok") -> list[Event]:
    run = RunId(f"{number:016x}")
    return [
        RunStarted(run, "finance", "finance.py:finance", 0.0, 0),
        NodeDeclared(run, ROOT, "program", "finance", None, (), "finance.py:40", 0.0),
        NodeFinished(run, ROOT, outcome, ended_at_s),
        RunFinished(run, outcome, ended_at_s),
    ]


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


def test_a_line_after_a_question_that_was_answered_from_a_pipe_is_its_own() -> None:
    out = io.StringIO()
    lines = PlainLines(1, out)
    lines.on_events(beginning())
    with lines.paused():
        out.write("\nSend it? ")
    lines.on_events(end())
    assert out.getvalue().splitlines()[1] == "Send it? "
    assert out.getvalue().splitlines()[2].startswith("plan#0")


def test_a_batch_counts_runs_with_its_rate_and_the_time_left() -> None:
    out = io.StringIO()
    lines = PlainLines(3, out)
    lines.on_events(beginning())
    lines.emit("left out")
    lines.on_events(end())
    assert out.getvalue() == "1/3 runs done, 1.7 a second, about 1 s left\n"


def test_a_batch_counts_runs_that_failed() -> None:
    out = io.StringIO()
    lines = PlainLines(3, out)
    lines.on_events(one_run(1, 1.0))
    lines.on_events(one_run(2, 2.0, "failed"))
    assert out.getvalue().splitlines()[-1] == (
        "2/3 runs done, 1.0 a second, about 1 s left, 1 failed"
    )


def test_a_batch_writes_a_line_a_second_at_most_and_the_last_one() -> None:
    out = io.StringIO()
    lines = PlainLines(40, out)
    for number in range(40):
        lines.on_events(one_run(number, 0.1 * (number + 1)))
    counts = [line.split()[0] for line in out.getvalue().splitlines()]
    assert counts == ["1/40", "11/40", "21/40", "31/40", "40/40"]


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

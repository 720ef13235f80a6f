"""Long commands say how far they are, how fast they go and how long the rest takes."""

from collections.abc import Callable

import pytest

from agentrt.base.clock import FakeClock
from agentrt.base.ids import RunId
from agentrt.lab.progress import LINE_EVERY_S, WorkPace
from agentrt.lab.sim.runs_counted import RunsCounted
from agentrt.protocol.events import RunFinished, RunStarted

Paced = tuple[Callable[[int], WorkPace], FakeClock, list[str]]


@pytest.fixture
def paced() -> Paced:
    clock, told = FakeClock(), list[str]()
    return lambda total: WorkPace("plays", total, told.append, clock.now_s), clock, told


def test_a_result_is_told_at_once_with_the_pace(paced: Paced) -> None:
    make, clock, told = paced
    pace = make(4)
    for text in ("first", "second", "third", "last"):
        clock.advance(2.0)
        pace.done(text)
    assert told == [
        "first; 1/4 plays, 30.0 a minute, about 6 s left",
        "second; 2/4 plays, 30.0 a minute, about 4 s left",
        "third; 3/4 plays, 30.0 a minute, about 2 s left",
        "last; 4/4 plays, 30.0 a minute",
    ]


def test_without_results_a_line_comes_every_few_seconds(paced: Paced) -> None:
    make, clock, told = paced
    pace = make(100)
    for _ in range(100):
        clock.advance(LINE_EVERY_S / 40)
        pace.done()
    assert told == [
        "40/100 plays, 8.0 a second, about 8 s left",
        "80/100 plays, 8.0 a second, about 2 s left",
    ]


def test_short_work_is_silent(paced: Paced) -> None:
    make, clock, told = paced
    pace = make(3)
    for _ in range(3):
        clock.advance(1.0)
        pace.done()
    assert told == []


def test_runs_of_a_simulation_are_counted(paced: Paced) -> None:
    make, clock, told = paced
    counted = RunsCounted(make(2))
    clock.advance(LINE_EVERY_S)
    run = RunId("a1")
    counted.on_events([RunStarted(run, "p", "p.py:p", 0.0, 0), RunFinished(run, "ok", 1.0)])
    assert told == ["1/2 plays, 12.0 a minute, about 5 s left"]

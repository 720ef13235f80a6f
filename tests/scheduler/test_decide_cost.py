"""What a decision looks at: only what has changed, however many nodes there are. Counted."""

import sys
from collections import Counter
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from agentrt.scheduler import Start, State, apply, decide
from agentrt.scheduler.internal_events import Held, Released


@pytest.fixture(scope="module")
def cost() -> Any:
    """The script that takes the times."""
    path = Path(__file__).with_name("decide_cost.py")
    spec = spec_from_file_location("decide_cost", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Lines:
    """Counts the lines that run in the scheduler while it is entered, loops included."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()

    def __call__(self, frame: FrameType, what: str, argument: object) -> Any:
        if "/scheduler/" not in frame.f_code.co_filename:
            return None
        if what == "line":
            self.found[frame.f_code.co_name] += 1
        return self

    def __enter__(self) -> Counter[str]:
        sys.settrace(self)
        return self.found

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)


def lines_of_a_turn(cost: Any, nodes: int) -> Counter[str]:
    """All that runs in a few turns of the loop."""
    table = cost.Table(nodes)
    for _ in range(5):
        table.step()
    with Lines() as found:
        for _ in range(10):
            table.step()
    return found


def test_a_turn_costs_the_same_for_any_number_of_nodes(cost: Any) -> None:
    few, many = lines_of_a_turn(cost, 1000), lines_of_a_turn(cost, 8000)
    assert sum(many.values()) <= 1.1 * sum(few.values())
    assert many["decide"] == few["decide"]


def test_when_nothing_has_changed_nothing_is_looked_at(cost: Any) -> None:
    table = cost.Table(1000)
    state: State = table.state
    assert len(state.workers.waiting) > 20, "tools that wait for a thread among them"
    with Lines() as found:
        assert decide(state, 1.0) == ()
    assert sum(found.values()) < 30


def test_a_thread_that_comes_free_finds_its_tool_at_once(cost: Any) -> None:
    table = cost.Table(3000)
    state: State = table.state
    waiting = len(state.workers.waiting)
    first = state.workers._heap[0][1]
    apply(state, Held(first.run.run_id, first.node_id))
    apply(state, Released(first.run.run_id, first.node_id))
    state.workers.busy -= 1
    with Lines() as found:
        (decision,) = decide(state, 1.0)
        table.perform(decision)
    assert decision == Start(first.run.run_id, first.node_id)
    assert len(state.workers.waiting) == waiting - 1
    assert sum(found.values()) < 150


def test_all_at_once_are_sorted_once(cost: Any) -> None:
    with Lines() as few:
        cost.burst_s(300)
    with Lines() as many:
        cost.burst_s(1200)
    assert 300 < few["in_dispatch_order"] < 300 * 15
    for name in ("_start", "in_order", "info"):
        assert many[name] <= 4 * few[name], name
    assert many["__missing__"] < 1200 * 10, "what a run says is asked once a run"

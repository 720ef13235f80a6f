"""What a decision looks at: only what has changed, however many nodes there are. Counted."""

from collections import Counter
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from agentrt.scheduler import Start, State, apply, decide
from agentrt.scheduler.internal_events import Held, Released
from tests.line_count import Lines


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


def lines_of_a_turn(cost: Any, nodes: int) -> Counter[str]:
    """All that runs in a few turns of the loop."""
    table = cost.Table(nodes)
    for _ in range(5):
        table.step()
    with Lines("scheduler") as found:
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
    assert len(state.tool_slots.waiting) > 20, "tools that wait for a thread among them"
    with Lines("scheduler") as found:
        assert decide(state, 1.0) == ()
    assert sum(found.values()) < 30


def test_a_thread_that_comes_free_finds_its_tool_at_once(cost: Any) -> None:
    table = cost.Table(3000)
    state: State = table.state
    waiting = len(state.tool_slots.waiting)
    places = state.tool_slots.waiting
    first = min(places, key=lambda node: places[node])
    apply(state, Held(first.run.run_id, first.node_id))
    apply(state, Released(first.run.run_id, first.node_id))
    state.tool_slots.busy -= 1
    with Lines("scheduler") as found:
        (decision,) = decide(state, 1.0)
        table.perform(decision)
    assert decision == Start(first.run.run_id, first.node_id)
    assert len(state.tool_slots.waiting) == waiting - 1
    assert sum(found.values()) < 150


def test_all_at_once_are_sorted_once(cost: Any) -> None:
    with Lines("scheduler") as few:
        cost.burst_s(300)
    with Lines("scheduler") as many:
        cost.burst_s(1200)
    assert 300 < few["in_dispatch_order"] < 300 * 15
    for name in ("_start_ready", "in_dispatch_order", "info_of"):
        assert 0 < many[name] <= 4 * few[name], name
    assert 0 < many["_run_info"] < 1200 * 10, "the info of a run is computed once a run"

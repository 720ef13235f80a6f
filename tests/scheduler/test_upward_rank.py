"""Upward rank: the longest path from a node to the end of its run."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.protocol.events import (
    NodeDeclared,
    NodeDemanded,
    NodeFinished,
    RequestSent,
    RunStarted,
)
from agentrt.scheduler import (
    Estimates,
    Send,
    State,
    UpdateInfo,
    apply,
    decide,
    site_of,
)
from agentrt.scheduler.order.upward_rank import recompute_ranks
from tests.line_count import Lines

RUN = RunId("0" * 16)
TEMPLATE = "p p.py"


def declared(name: str, deps: tuple[str, ...] = (), kind: Any = "generate") -> NodeDeclared:
    parent = None if name == "r" else NodeId("r")
    needs = tuple(NodeId(dep) for dep in deps)
    return NodeDeclared(RUN, NodeId(name), kind, name, parent, needs, "", 0.0, model="default")


def knowing(busy_s: dict[str, float], path_s: dict[str, float] | None = None) -> State:
    """A state that knows how long each node takes, and what comes after some."""
    table = Estimates()
    for name, seconds in busy_s.items():
        for _ in range(3):
            table.site(TEMPLATE, site_of(name, "")).observe("busy_s", seconds)
    for name, seconds in (path_s or {}).items():
        for _ in range(3):
            table.site(TEMPLATE, site_of(name, "")).observe("path_s", seconds)
    state = State(estimates=table, incomplete_roles=("default",))
    apply(state, RunStarted(RUN, "p", "p.py", 0.0, 0))
    apply(state, declared("r", kind="program"))
    apply(state, NodeDemanded(RUN, NodeId("r"), 0.0))
    return state


def rank(state: State, name: str) -> float:
    return state.runs[RUN].nodes[NodeId(name)].rank_s


@st.composite
def graphs(draw: Any) -> list[tuple[float, float, tuple[int, ...]]]:
    """Nodes in order: what each takes, what is learned to come from there on, what it needs."""
    size = draw(st.integers(1, 14))
    return [
        (
            draw(st.floats(0.1, 10.0)),
            draw(st.floats(0.1, 20.0)),
            tuple(draw(st.sets(st.integers(0, number - 1), max_size=3))) if number else (),
        )
        for number in range(size)
    ]


@settings(max_examples=80, deadline=None, derandomize=True)
@given(graph=graphs())
def test_it_is_the_longest_path(graph: list[tuple[float, float, tuple[int, ...]]]) -> None:
    """Of all paths through what is known, each followed by what was learned of its last node."""
    busy = {f"n{number}": busy_s for number, (busy_s, _, _) in enumerate(graph)}
    path = {f"n{number}": path_s for number, (_, path_s, _) in enumerate(graph)}
    state = knowing(busy, path)
    for number, (_, _, needs) in enumerate(graph):
        apply(state, declared(f"n{number}", tuple(f"n{need}" for need in needs)))

    def longest(number: int) -> float:
        """By trying every path."""
        after = [longest(n) for n, (_, _, needs) in enumerate(graph) if number in needs]
        return graph[number][0] + max(after) if after else graph[number][1]

    run = state.runs[RUN]
    for number in range(len(graph)):
        # Each node since all ranks were worked out anew may have kept a tenth to itself.
        assert 0.5 <= rank(state, f"n{number}") / longest(number) <= 2.0
    run.rerank_at_nodes = 0
    recompute_ranks(run, {})
    for number in range(len(graph)):
        assert rank(state, f"n{number}") == pytest.approx(longest(number))


def test_a_node_that_is_not_needed_any_more_lowers_the_rank() -> None:
    state = knowing({"a": 1.0, "b": 5.0, "c": 2.0}, {"a": 1.0, "b": 5.0, "c": 2.0})
    for fact in (declared("a"), declared("b", ("a",)), declared("c", ("a",))):
        apply(state, fact)
    assert rank(state, "a") == pytest.approx(6.0)
    apply(state, NodeFinished(RUN, NodeId("b"), "cancelled", 0.0))
    assert rank(state, "a") == pytest.approx(3.0)


def test_small_changes_go_nowhere() -> None:
    """A chain in which each node needs the one before: not all of it anew for each."""

    def chained(length: int) -> tuple[int, State]:
        each = {f"n{number}": 1.0 for number in range(length)}
        state = knowing(each, each)
        with Lines("scheduler/order") as lines:
            for number in range(length):
                needs = (f"n{number - 1}",) if number else ()
                apply(state, declared(f"n{number}", needs))
        return lines.total(), state

    work, _ = chained(100)
    twice, state = chained(200)
    assert 0 < twice < 2.5 * work, "exact ranks take four times as much for twice the length"
    found = [rank(state, f"n{number}") for number in range(200)]
    assert all(one <= 200 - number + 1e-6 for number, one in enumerate(found))
    assert found[0] > 175.0, "where a small change each time never got through it would be 10"


def test_an_engine_is_told_when_a_waiting_request_matters_more() -> None:
    state = knowing({"a": 1.0, "b": 1.0, "c": 9.0}, {"a": 1.0, "b": 1.0, "c": 9.0})
    apply(state, declared("a"))
    (send,) = [d for d in decide(state, 0.0) if isinstance(d, Send)]
    assert send.info.rank_s == pytest.approx(1.0)
    apply(state, RequestSent(RUN, NodeId("a"), RequestId(0), "s", "m", True, 0.0))
    apply(state, send)
    apply(state, declared("c", ("a",)))
    (tell,) = [d for d in decide(state, 0.0) if isinstance(d, UpdateInfo)]
    (facts,) = tell.updates
    assert facts.request_id == 0
    assert facts.rank_s == pytest.approx(10.0)


def test_longer_paths_start_first() -> None:
    names = {"short": 1.0, "long": 9.0, "middle": 4.0}
    state = knowing(names, names)
    for name in names:
        apply(state, declared(name))
    sent = [d.node_id for d in decide(state, 0.0) if isinstance(d, Send)]
    assert sent == ["long", "middle", "short"]

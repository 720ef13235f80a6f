"""In which order a burst is started, and what is told of it: as if each node were asked alone."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.ids import NodeId, RunId
from agentrt.protocol.events import NodeDeclared, NodeDemanded, RunStarted
from agentrt.scheduler import NodeState, Send, State, apply, decide
from agentrt.scheduler.order.dispatch_order import dispatch_key, in_dispatch_order
from agentrt.scheduler.order.request_info import InfoUpdates

few_floats = st.sampled_from([0.0, 0.5, 3.0])

runs = st.lists(
    st.fixed_dictionaries(
        {
            "started_at_s": few_floats,
            "priority": st.integers(-1, 1),
            "tenant": st.sampled_from(["a", "b"]),
            "served_s": st.sampled_from([0.0, 1.0, 20.0]),
            "nodes": st.lists(st.tuples(few_floats, st.booleans()), max_size=5),
        }
    ),
    min_size=1,
    max_size=5,
)


def state_of(told: list[dict[str, Any]]) -> State:
    """Generations that are all ready at once; what ranks them is set as if it had been learned."""
    state = State(incomplete_roles=("default",))
    for number, run in enumerate(told):
        run_id, began_s = RunId(f"{number}"), run["started_at_s"]
        apply(
            state,
            RunStarted(
                run_id, "p", "p.py", began_s, 0, tenant=run["tenant"], priority=run["priority"]
            ),
        )
        apply(state, NodeDeclared(run_id, NodeId("r"), "program", "p", None, (), "p.py:1", began_s))
        apply(state, NodeDemanded(run_id, NodeId("r"), began_s))
        state.runs[run_id].account.charge(run["served_s"])
    longest = max(len(run["nodes"]) for run in told)
    for at in range(longest):  # of different runs in turn
        for number, run in enumerate(told):
            if at < len(run["nodes"]):
                _declare(state, RunId(f"{number}"), at, *run["nodes"][at])
    return state


def _declare(state: State, run_id: RunId, at: int, rank_s: float, awaited: bool) -> None:
    node_id, site = NodeId(f"r/{at}"), f"p.py:{at % 2}"
    event = NodeDeclared(
        run_id, node_id, "generate", "gen", NodeId("r"), (), site, 4.0, model="default"
    )
    apply(state, event)
    if awaited:
        apply(state, NodeDemanded(run_id, node_id, 4.0))
    node = state.runs[run_id].nodes[node_id]
    node.rank_s = rank_s
    for _ in range(3):
        node.estimates.observe("output_tokens", 10.0 * (at % 2 + 1))


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(told=runs, source=st.randoms(use_true_random=False))
def test_many_are_put_in_the_order_that_each_asks_for(told, source) -> None:
    ready: list[NodeState] = list(state_of(told).ready)
    expected = sorted(ready, key=dispatch_key)
    source.shuffle(ready)
    assert in_dispatch_order(ready) == expected


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(told=runs)
def test_what_is_told_of_many_at_once_is_what_is_told_of_each(told) -> None:
    state = state_of(told)
    sent = [one for one in decide(state, 7.0) if isinstance(one, Send)]
    assert [one.info.request_id for one in sent] == list(range(len(sent)))
    assert len(sent) == sum(len(run["nodes"]) for run in told)
    for one in sent:
        run = state.runs[one.run_id]
        node = run.nodes[one.node_id]
        assert one.info == InfoUpdates(7.0).info_of(node, one.info.request_id)
        assert (one.info.run_id, one.info.rank_s) == (run.run_id, node.rank_s)
        assert one.info.waited_s == run.waited_until(7.0)
        assert one.info.tenant_debt_s == run.account.debt_s
        assert one.info.output_tokens == node.estimates.mean("output_tokens") > 0.0

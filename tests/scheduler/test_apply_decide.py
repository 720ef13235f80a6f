"""The scheduler alone, against a world that answers its decisions in any order."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.protocol.events import (
    NodeDeclared,
    NodeDemanded,
    NodeFinished,
    NodeKind,
    Outcome,
    RequestSent,
    RunFinished,
    RunStarted,
)
from agentrt.scheduler import (
    CancelRequested,
    Decision,
    DemandEnded,
    Expire,
    Fill,
    Held,
    InternalEvent,
    Released,
    Send,
    Start,
    State,
    StopNode,
    UpdateInfo,
    apply,
    decide,
)
from agentrt.scheduler.apply import NODE_TRANSITIONS, TRANSITIONS
from tests.scheduler.likeness import decide_alike

RUN = RunId("0" * 16)


def declared(
    name: str, kind: NodeKind = "generate", deps: tuple[str, ...] = (), **more: Any
) -> NodeDeclared:
    parent = more.pop("parent", "root#0" if name != "root#0" else None)
    return NodeDeclared(
        RUN,
        NodeId(name),
        kind,
        name,
        NodeId(parent) if parent else None,
        tuple(NodeId(dep) for dep in deps),
        "p.py:1",
        more.pop("at_s", 0.0),
        model="default" if kind == "generate" else "",
        **more,
    )


def finished(name: str, outcome: Outcome = "ok") -> NodeFinished:
    return NodeFinished(RUN, NodeId(name), outcome, 1.0)


def started(*facts: Any, holes: bool = False, threads: int = 16) -> State:
    state = State(incomplete_roles={"default"} if holes else (), max_threads=threads)
    apply(state, RunStarted(RUN, "p", "p.py:p", 0.0, 0))
    for fact in (declared("root#0", "program"), NodeDemanded(RUN, NodeId("root#0"), 0.0)):
        apply(state, fact)
    run(state)
    for fact in facts:
        apply(state, fact)
    return state


def run(state: State, now_s: float = 0.0) -> list[Decision]:
    """What is decided; each decision is carried out without any effect of its own."""
    decisions = list(decide(state, now_s))
    for decision in decisions:
        if isinstance(decision, Send):
            number = RequestId(state.declared_count * 1000 + len(state.ready))
            apply(
                state,
                RequestSent(RUN, decision.node_id, number, "scripted", "m", True, now_s),
            )
        apply(state, decision)
    assert decide(state, now_s) == (), "what was carried out is not decided again"
    return decisions


def names(decisions: list[Decision], kind: type) -> list[str]:
    return [str(d.node_id) for d in decisions if isinstance(d, kind)]  # type: ignore[union-attr]


def test_demanded_work_goes_first() -> None:
    state = started(declared("a#0"), declared("b#0"), NodeDemanded(RUN, NodeId("b#0"), 0.0))
    decisions = run(state)
    assert names(decisions, Send) == ["b#0", "a#0"]
    assert [d.info.demanded for d in decisions if isinstance(d, Send)] == [True, False]


@pytest.mark.parametrize("holes", [True, False])
def test_a_prompt_with_holes_goes_out_where_the_engine_takes_it(holes: bool) -> None:
    state = started(declared("a#0"), declared("b#0", deps=("a#0",)), holes=holes)
    assert names(run(state), Send) == (["a#0", "b#0"] if holes else ["a#0"])
    apply(state, finished("a#0"))
    decisions = run(state)
    assert names(decisions, Fill) == (["b#0"] if holes else [])
    assert names(decisions, Send) == ([] if holes else ["b#0"])


def test_a_failed_input_is_looked_at_before_the_others_are_there() -> None:
    state = started(
        declared("a#0", "tool"), declared("b#0", "tool"), declared("c#0", deps=("a#0", "b#0"))
    )
    run(state)
    apply(state, finished("a#0", "failed"))
    assert names(run(state), Fill) == ["c#0"]


def test_demand_walks_back_and_is_told_once() -> None:
    state = started(
        declared("a#0"), declared("b#0", deps=("a#0",)), declared("c#0", deps=("b#0",)), holes=True
    )
    run(state)
    apply(state, NodeDemanded(RUN, NodeId("c#0"), 0.0))
    told = [d for d in run(state) if isinstance(d, UpdateInfo)]
    assert [[f.demanded for f in d.updates] for d in told] == [[True, True, True]]
    apply(state, DemandEnded(RUN, NodeId("c#0")))
    told = [d for d in run(state) if isinstance(d, UpdateInfo)]
    assert [[f.demanded for f in d.updates] for d in told] == [[False, False, False]]


def test_demand_of_a_shared_input_lasts_as_long_as_one_needs_it() -> None:
    state = started(
        declared("a#0"), declared("b#0", deps=("a#0",)), declared("c#0", deps=("a#0",)), holes=True
    )
    run(state)
    for name in ("b#0", "c#0"):
        apply(state, NodeDemanded(RUN, NodeId(name), 0.0))
    apply(state, DemandEnded(RUN, NodeId("b#0")))
    assert state.runs[RUN].nodes[NodeId("a#0")].demanded
    apply(state, finished("c#0", "cancelled"))
    assert not state.runs[RUN].nodes[NodeId("a#0")].demanded


def test_threads_are_given_to_demanded_tools_first() -> None:
    tools = [declared(f"t#{i}", "tool", threaded=True) for i in range(4)]
    state = started(*tools, NodeDemanded(RUN, NodeId("t#3"), 0.0), threads=2)
    assert names(run(state), Start) == ["t#3", "t#0"]
    apply(state, NodeDemanded(RUN, NodeId("t#2"), 0.0))
    assert run(state) == []
    apply(state, finished("t#3"))
    assert names(run(state), Start) == ["t#2"]


def test_a_write_waits_for_its_plan() -> None:
    plan = declared("plan#0")
    calls = [
        declared("r#0", "tool", plan=NodeId("plan#0"), effects="read"),
        declared("w#0", "tool", plan=NodeId("plan#0"), effects="write"),
    ]
    state = started(plan, *calls)
    assert names(run(state), Start) == ["r#0"]
    apply(state, finished("plan#0"))
    assert names(run(state), Start) == ["w#0"]


def test_held_nodes_wait_for_their_release() -> None:
    state = started(declared("a#0"), Held(RUN, NodeId("a#0")))
    assert run(state) == []
    apply(state, Released(RUN, NodeId("a#0")))
    assert names(run(state), Send) == ["a#0"]


def test_deadlines_pass_once_and_in_order() -> None:
    state = started(
        declared("a#0", expires_at_s=5.0), declared("b#0", expires_at_s=3.0), declared("c#0")
    )
    run(state)
    assert state.next_deadline_s() == 3.0
    assert run(state, 2.9) == []
    assert names(run(state, 6.0), Expire) == ["b#0", "a#0"]
    assert run(state, 7.0) == []
    assert state.next_deadline_s() is None, "nothing wakes the loop for what is ending already"
    for name in ("a#0", "b#0"):
        apply(state, finished(name, "failed"))
    assert run(state, 8.0) == []


def test_a_cancelled_node_is_not_started() -> None:
    state = started(declared("a#0"), CancelRequested(RUN, NodeId("a#0"), "no"))
    apply(state, CancelRequested(RUN, NodeId("a#0"), "again"))
    decisions = run(state)
    assert decisions == [StopNode(RUN, NodeId("a#0"), "no")]


def test_facts_about_what_is_unknown_or_over_change_nothing() -> None:
    state = started(declared("a#0"), finished("a#0"))
    for fact in (
        NodeDemanded(RUN, NodeId("a#0"), 0.0),
        DemandEnded(RUN, NodeId("x#0")),
        CancelRequested(RUN, NodeId("a#0"), "late"),
        finished("a#0"),
        Released(RUN, NodeId("a#0")),
    ):
        apply(state, fact)
    assert run(state) == []
    apply(state, RunFinished(RUN, "ok", 1.0))
    assert state.runs == {}
    apply(state, StopNode(RUN, NodeId("a#0"), "late"))


@dataclass
class World:
    """Answers decisions as an engine and tools would, in an order drawn by chance."""

    random: Random
    holes: bool
    state: State
    alive: dict[str, str] = field(default_factory=dict)  # node -> waiting | running | stopping
    inputs: dict[str, list[str]] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)
    log: list[Any] = field(default_factory=list)
    sent: int = 0
    decide: Callable[[State, float], tuple[Decision, ...]] = decide

    def tell(self, fact: Any) -> None:
        self.log.append(fact)
        apply(self.state, fact)

    def end(self, name: str, outcome: Outcome) -> None:
        del self.alive[name]
        self.ended[name] = self.ended.get(name, 0) + 1
        self.tell(finished(name, outcome))

    def perform(self, decision: Decision) -> None:
        name = str(getattr(decision, "node_id", ""))
        match decision:
            case Send() | Start():
                assert self.alive[name] == "waiting", "started once, and not while it ends"
                missing = [i for i in self.inputs[name] if i in self.alive]
                assert self.holes or not missing or isinstance(decision, Start)
                self.alive[name] = "running"
                self.started.append(name)
                if isinstance(decision, Send):
                    self.sent += 1
                    number = RequestId(self.sent)
                    self.tell(RequestSent(RUN, NodeId(name), number, "s", "m", True, 0.0))
            case StopNode() | Expire():
                assert name in self.alive
                if self.alive[name] == "waiting":
                    self.end(name, "cancelled")
                else:
                    self.alive[name] = "stopping"
            case Fill() | UpdateInfo():
                pass
        self.tell(decision)

    def settle(self, now_s: float) -> None:
        for _ in range(1000):
            decisions = self.decide(self.state, now_s)
            assert decisions == self.decide(self.state, now_s), "deciding changes nothing"
            if not decisions:
                deadline_s = self.state.next_deadline_s()
                assert deadline_s is None or deadline_s > now_s, "the loop would never sleep"
                return
            for decision in decisions:
                if str(getattr(decision, "node_id", "")) in self.ended:
                    self.tell(decision)  # it ended within this batch
                else:
                    self.perform(decision)
        raise AssertionError("the scheduler never comes to rest")


def play(seed: int, size: int, holes: bool, threads: int, how: Any = decide) -> World:
    random = Random(seed)
    world = World(random, holes, started(holes=holes, threads=threads), decide=how)
    now_s = 0.0
    for index in range(size):
        name = f"n#{index}"
        kind: NodeKind = random.choice(["generate", "generate", "tool"])
        inputs = (
            random.sample(sorted({*world.alive, *world.ended}), k=random.randint(0, 2))
            if index > 2
            else []
        )
        world.alive[name] = "waiting"
        world.inputs[name] = inputs if kind == "generate" else []
        expires_at_s = now_s + random.random() * 5 if random.random() < 0.2 else None
        threaded = kind == "tool" and random.random() < 0.5
        event = declared(
            name, kind, tuple(world.inputs[name]), expires_at_s=expires_at_s, threaded=threaded
        )
        world.tell(event)
        if random.random() < 0.15:
            world.tell(Held(RUN, NodeId(name)))
            world.tell(Released(RUN, NodeId(name)))
        for _ in range(random.randint(0, 3)):
            _happen(world)
        now_s += random.random()
        if random.random() < 0.7:
            world.settle(now_s)
    while world.alive:
        world.settle(now_s)
        _happen(world, must_end=True)
        now_s += 0.1
    return world


def _happen(world: World, must_end: bool = False) -> None:
    """One thing that the engine, a tool or the program does."""
    random = world.random
    running = [n for n, s in world.alive.items() if s in ("running", "stopping")]
    ready = [n for n in running if not [i for i in world.inputs[n] if i in world.alive] or must_end]
    if ready and (must_end or random.random() < 0.6):
        name = random.choice(ready)
        stopping = world.alive[name] == "stopping"
        world.end(name, "cancelled" if stopping else random.choice(["ok", "ok", "failed"]))
        return
    if not world.alive:
        return
    name = random.choice(list(world.alive))
    fact = random.choice(
        [
            NodeDemanded(RUN, NodeId(name), 0.0),
            DemandEnded(RUN, NodeId(name)),
            CancelRequested(RUN, NodeId(name), "chance"),
        ]
    )
    world.tell(fact)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    size=st.integers(1, 40),
    holes=st.booleans(),
    threads=st.integers(1, 3),
)
def test_every_node_ends_exactly_once_in_any_order(
    seed: int, size: int, holes: bool, threads: int
) -> None:
    world = play(seed, size, holes, threads)
    assert set(world.ended.values()) <= {1}
    assert len(world.ended) == size
    assert len(set(world.started)) == len(world.started), "nothing is started twice"
    state = world.state
    left = (state.ready, state.to_fill, state.to_stop, state.to_update, state.deadlines)
    assert [len(table) for table in left] == [0] * 5, "nothing is left to do"
    assert state.tool_slots.busy == 0


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    size=st.integers(1, 20),
    holes=st.booleans(),
    threads=st.integers(1, 3),
)
def test_deciding_leaves_the_state_as_it_is(
    seed: int, size: int, holes: bool, threads: int
) -> None:
    assert len(play(seed, size, holes, threads, decide_alike).ended) == size


@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 25))
def test_the_same_facts_give_the_same_decisions(seed: int, size: int) -> None:
    world = play(seed, size, True, 2)
    one, other = started(holes=True, threads=2), started(holes=True, threads=2)
    for fact in world.log:
        apply(one, fact)
        apply(other, copy.deepcopy(fact))
        assert decide(one, 3.0) == decide(other, 3.0)


def test_every_kind_of_fact_is_known() -> None:
    assert {*TRANSITIONS, *NODE_TRANSITIONS} == set(get_args(InternalEvent))

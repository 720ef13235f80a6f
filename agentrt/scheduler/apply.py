"""From facts to state: deterministic, without I/O or a clock, in place on state that it owns."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, assert_never

from agentrt.backend import BackendDown, StepDone
from agentrt.events import (
    AttemptFailed,
    FirstToken,
    HoleFilled,
    ItemClosed,
    NodeDeclared,
    NodeDemanded,
    NodeFinished,
    PrefixLost,
    PromptRevised,
    RequestSent,
    RunFinished,
    RunStarted,
    Scheduled,
    ToolEnded,
    ToolStarted,
)
from agentrt.scheduler.decisions import Expire, Fill, Send, Start, Stop, Tell
from agentrt.scheduler.demand import demand_ended, demanded, input_ended, refresh
from agentrt.scheduler.facts import (
    CancelWanted,
    CloseWanted,
    DemandEnded,
    Fact,
    Held,
    Performed,
    Released,
)
from agentrt.scheduler.state import NodeState, RunState, State


def apply(state: State, fact: Fact) -> None:
    """Take one fact into `state`.

    The kinds are told apart by a table: there are many facts a node, and a `match` over fifteen
    classes costs more than all that follows. A test holds the table against `Fact`.
    """
    take = TAKES[type(fact)]
    if take is not None:
        take(state, fact)


def _declared(state: State, event: NodeDeclared) -> None:
    run = state.runs[event.run_id]
    node = NodeState(run, event, state.declared)
    state.declared += 1
    run.nodes[event.node_id] = node
    if node.parent is not None:
        node.parent.children[node] = None
    for dep in event.deps:
        source = run.nodes.get(dep)
        if source is not None and source.status != "ended":
            node.inputs.append(source)
            source.dependents.append(node)
            node.missing += 1
    if event.effects == "write" and event.plan is not None:
        plan = run.nodes.get(event.plan)
        if plan is not None and plan.status != "ended":  # the model may still change its mind
            plan.dependents.append(node)
            node.inputs.append(plan)
            node.missing += 1
    node.starts_incomplete = node.kind == "program" or node.model in state.incomplete_roles
    if node.expires_at_s is not None:
        heapq.heappush(state.timers, (node.expires_at_s, node.order, node))
    _consider(state, node)


def _consider(state: State, node: NodeState) -> None:
    """Make it ready when nothing keeps it."""
    if node.status != "waiting" or node.holds or node.stopping:
        return
    if not node.missing or node.starts_incomplete:
        state.ready[node] = None


def _finished(state: State, event: NodeFinished) -> None:
    node = state.node(event.run_id, event.node_id)
    if node is None:
        return
    if node.threaded and node.status == "running":
        state.threaded -= 1
    node.status = "ended"
    node.finished_at_s = event.at_s
    for table in (state.ready, state.to_fill, state.to_stop, state.to_tell):
        table.pop(node, None)
    if node.parent is not None:
        node.parent.children.pop(node, None)
    for dependent in node.dependents:
        if dependent.status == "ended" or dependent.kind == "program":
            continue
        dependent.missing -= 1
        if dependent.status == "running" or event.outcome != "ok":
            state.to_fill[dependent] = None
        _consider(state, dependent)
    node.dependents.clear()
    for source in node.inputs:
        input_ended(state, source)
    node.inputs.clear()
    _drop_timers(state)


def _drop_timers(state: State) -> None:
    """Forget deadlines of nodes that have ended or are about to: nothing waits for those."""
    timers = state.timers
    while timers and (timers[0][2].status == "ended" or timers[0][2].stopping):
        heapq.heappop(timers)


def _performed(state: State, decision: Send | Fill | Start | Stop | Expire | Tell) -> None:
    if isinstance(decision, Tell):
        for node in [n for n in state.to_tell if n.model == decision.model]:
            del state.to_tell[node]
        return
    run = state.runs.get(decision.run_id)
    known = run.nodes.get(decision.node_id) if run is not None else None
    if known is None:
        return
    match decision:
        case Send() | Start():
            state.ready.pop(known, None)
            if known.status == "waiting":
                known.status = "running"
                state.threaded += known.threaded
                refresh(state, known)
        case Fill():
            state.to_fill.pop(known, None)
        case Stop() | Expire():
            known.stopping = True
            _drop_timers(state)
            for table in (state.ready, state.to_fill, state.to_stop):
                table.pop(known, None)
        case _:
            assert_never(decision)


def _demanded(state: State, fact: NodeDemanded) -> None:
    if node := state.node(fact.run_id, fact.node_id):
        demanded(state, node)


def _demand_ended(state: State, fact: DemandEnded) -> None:
    if node := state.node(fact.run_id, fact.node_id):
        demand_ended(state, node)


def _sent(state: State, fact: RequestSent) -> None:
    if node := state.node(fact.run_id, fact.node_id):
        node.request_id = fact.request_id


def _revised(state: State, fact: PromptRevised) -> None:
    """Its prompt changed under it: it starts anew, and nothing it needs is pending."""
    node = state.node(fact.run_id, fact.node_id)
    if node is None or node.stopping:
        return
    node.status = "waiting"
    node.request_id = None
    if fact.deps:
        node.after = fact.deps[-1]
    state.to_tell.pop(node, None)
    state.ready[node] = None


def _stepped(state: State, fact: StepDone) -> None:
    state.free_pages = fact.free_pages
    state.evictable_pages = fact.evictable_pages


def _held(state: State, fact: Held) -> None:
    if node := state.node(fact.run_id, fact.node_id):
        node.holds += 1
        state.ready.pop(node, None)


def _released(state: State, fact: Released) -> None:
    if node := state.node(fact.run_id, fact.node_id):
        node.holds -= 1
        _consider(state, node)


def _cancel_wanted(state: State, fact: CancelWanted) -> None:
    node = state.node(fact.run_id, fact.node_id)
    if node is not None and not node.stopping:
        state.to_stop.setdefault(node, fact.reason)


def _close_wanted(state: State, fact: CloseWanted) -> None:
    """To its engine that is a deadline which has come."""
    node = state.node(fact.run_id, fact.node_id)
    if node is not None and not node.stopping:
        node.deadline_at_s = fact.at_s
        if node.request_id is not None:
            state.to_tell[node] = None


def _run_started(state: State, fact: RunStarted) -> None:
    state.runs[fact.run_id] = RunState(fact.run_id, fact.at_s)


def _run_finished(state: State, fact: RunFinished) -> None:
    del state.runs[fact.run_id]


TAKES: dict[type[Any], Callable[[State, Any], None] | None] = {
    NodeDeclared: _declared,
    NodeDemanded: _demanded,
    NodeFinished: _finished,
    RequestSent: _sent,
    PromptRevised: _revised,
    StepDone: _stepped,
    Performed: lambda state, fact: _performed(state, fact.decision),
    Held: _held,
    Released: _released,
    DemandEnded: _demand_ended,
    CancelWanted: _cancel_wanted,
    CloseWanted: _close_wanted,
    RunStarted: _run_started,
    RunFinished: _run_finished,
    # Told for observers; what follows from them arrives as other facts.
    FirstToken: None,
    HoleFilled: None,
    Scheduled: None,
    ItemClosed: None,
    AttemptFailed: None,
    PrefixLost: None,
    ToolEnded: None,
    ToolStarted: None,
    BackendDown: None,
}

"""From facts to state: deterministic, without I/O or a clock, in place on state that it owns."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, assert_never

from agentrt.protocol.events import (
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
from agentrt.protocol.step_output import BackendDown, StepDone
from agentrt.scheduler.accounting import admitted, ended, rest_changed, sent
from agentrt.scheduler.admission.deadline import PROBE_EVERY, count_hopeless, refusal
from agentrt.scheduler.decisions import (
    Admit,
    Decision,
    Expire,
    Fill,
    Refuse,
    Send,
    Start,
    StopNode,
    UpdateInfo,
)
from agentrt.scheduler.demand import demand_ended, demanded, input_ended, refresh
from agentrt.scheduler.internal_events import (
    CancelWanted,
    CloseWanted,
    DemandEnded,
    Held,
    InternalEvent,
    Performed,
    Released,
)
from agentrt.scheduler.learning import run_ended
from agentrt.scheduler.order.upward_rank import CHANGE, catch_up, raise_rank
from agentrt.scheduler.runs.run import NodeState, RunState
from agentrt.scheduler.state import State


def apply(state: State, fact: InternalEvent) -> None:
    """Take one fact into `state`.

    The kinds are told apart by a table: there are many facts a node, and a `match` over fifteen
    classes costs more than all that follows. A test holds the table against `InternalEvent`.
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
        if source is not None:
            node.causes.append(source)
            if source.status != "ended":
                _needs(node, source)
    if event.plan is not None:
        plan = run.nodes.get(event.plan)
        if plan is not None:
            node.causes.append(plan)
            if event.effects == "write" and plan.status != "ended":
                _needs(node, plan)  # the model may still change its mind
    if event.after is not None:
        waited_for = run.nodes.get(event.after)
        if waited_for is not None:
            node.causes.append(waited_for)
    above = node.causes or (() if node.parent is None else (node.parent,))
    if above:
        node.depth = max([cause.depth for cause in above]) + 1
    if node.kind != "program" or node.parent is None:
        run.mark(node, event.at_s)
        if run.waiting:
            rest_changed(state, run)
    if node.inputs:
        changed: dict[NodeState, None] = {}
        for source in node.inputs:
            raise_rank(source, changed)
        catch_up(run, changed)
        _ranked(state, changed)
    if node.parent is None and state.config.refuse_hopeless:
        hopeless = refusal(node)
        if hopeless is not None and count_hopeless(node) % PROBE_EVERY:
            state.to_refuse[node] = hopeless
    node.starts_incomplete = node.kind == "program" or node.model in state.incomplete_roles
    if node.expires_at_s is not None:
        heapq.heappush(state.timers, (node.expires_at_s, node.order, node))
    _consider(state, node, event.at_s)


def _needs(node: NodeState, source: NodeState) -> None:
    node.inputs.append(source)
    source.dependents[node] = None
    node.missing += 1


def _ranked(state: State, changed: dict[NodeState, None]) -> None:
    """Ranks have changed: tell the engines where it is by much, and put waiting tools in order."""
    for one in changed:
        if one.request_id is not None:
            told_s = one.told_rank_s
            if one.started_at_s is None and abs(one.rank_s - told_s) > CHANGE * told_s:
                one.told_rank_s = one.rank_s
                state.to_tell[one] = None
        elif one in state.workers.waiting:
            state.workers.add(one)


def _consider(state: State, node: NodeState, at_s: float) -> None:
    """Make it ready when nothing keeps it."""
    if node.status != "waiting" or node.holds or node.stopping:
        return
    if node.missing and not node.starts_incomplete:
        return
    if node.threaded:
        state.workers.add(node)
    elif node.kind == "generate" and not node.run.admitted:
        state.gate.hold(node, at_s)
    else:
        state.ready[node] = None


def _finished(state: State, event: NodeFinished) -> None:
    node = state.node(event.run_id, event.node_id)
    if node is None:
        return
    if node.threaded and node.status == "running":
        state.workers.busy -= 1
    node.status = "ended"
    node.finished_at_s = event.at_s
    state.ended += 1
    node.ended = state.ended
    ended(state, node, event)
    for table in (state.ready, state.to_fill, state.to_stop, state.to_refuse, state.to_tell):
        table.pop(node, None)
    if node.threaded:
        state.workers.drop(node)
    if node.parent is not None:
        node.parent.children.pop(node, None)
    for dependent in node.dependents:
        if dependent.status == "ended" or dependent.kind == "program":
            continue
        dependent.missing -= 1
        if dependent.status == "running" or event.outcome != "ok":
            state.to_fill[dependent] = None
        _consider(state, dependent, event.at_s)
    node.dependents.clear()
    for source in node.inputs:
        source.dependents.pop(node, None)
        input_ended(state, source)
        if source.status != "ended":
            changed: dict[NodeState, None] = {}
            raise_rank(source, changed)
            _ranked(state, changed)
    node.inputs.clear()
    _drop_timers(state)


def _drop_timers(state: State) -> None:
    """Forget deadlines of nodes that have ended or are about to: nothing waits for those."""
    timers = state.timers
    while timers and (timers[0][2].status == "ended" or timers[0][2].stopping):
        heapq.heappop(timers)


def _performed(state: State, decision: Decision) -> None:
    if isinstance(decision, UpdateInfo):
        for node in [n for n in state.to_tell if n.model == decision.model]:
            del state.to_tell[node]
        return
    if isinstance(decision, Admit):
        _admitted(state, decision)
        return
    run = state.runs.get(decision.run_id)
    known = run.nodes.get(decision.node_id) if run is not None else None
    if known is None:
        return
    match decision:
        case Send() | Start():
            state.ready.pop(known, None)
            if known.threaded:
                state.workers.drop(known)
            if known.status == "waiting":
                known.status = "running"
                state.workers.busy += known.threaded
                refresh(state, known)
        case Fill():
            state.to_fill.pop(known, None)
        case StopNode() | Expire() | Refuse():
            known.stopping = True
            _drop_timers(state)
            for table in (state.ready, state.to_fill, state.to_stop, state.to_refuse):
                table.pop(known, None)
            state.workers.drop(known)
            state.gate.forget(known.run, known)
        case _:
            assert_never(decision)


def _admitted(state: State, decision: Admit) -> None:
    gate = state.gate
    gate.settle(decision.at_s, decision.closed)
    for verdict in decision.verdicts:
        run = state.runs.get(verdict.run_id)
        if run is None or run not in gate.held:
            continue
        if verdict.admitted:
            for node in gate.let_in(run, decision.at_s):
                state.ready[node] = None
        else:
            gate.held[run] = True


def _demanded(state: State, fact: NodeDemanded) -> None:
    if node := state.node(fact.run_id, fact.node_id):
        demanded(state, node)


def _demand_ended(state: State, fact: DemandEnded) -> None:
    if node := state.node(fact.run_id, fact.node_id):
        demand_ended(state, node)


def _sent(state: State, fact: RequestSent) -> None:
    if node := state.node(fact.run_id, fact.node_id):
        sent(state, node, fact)


def _filled(state: State, fact: HoleFilled) -> None:
    """A prompt is complete: it waits for its engine from here on."""
    node = state.node(fact.run_id, fact.node_id)
    if node is not None and node.request_id is not None and node.started_at_s is None:
        node.run.wait(node, fact.at_s)
        state.gate.works(node)


def _revised(state: State, fact: PromptRevised) -> None:
    """Its prompt changed under it: it starts anew, and nothing it needs is pending."""
    node = state.node(fact.run_id, fact.node_id)
    if node is None or node.stopping:
        return
    node.status = "waiting"
    if node.request_id is not None:
        state.requests.pop(node.request_id, None)
        node.request_id = None
        node.started_at_s = None
        node.run.wait_no_more(node, fact.at_s)
        state.gate.rests(node, fact.at_s)
    if fact.deps:
        node.after = fact.deps[-1]
    state.to_tell.pop(node, None)
    state.ready[node] = None


def _first_token(state: State, fact: FirstToken) -> None:
    if node := state.node(fact.run_id, fact.node_id):
        admitted(node, fact.at_s)


def _tool_started(state: State, fact: ToolStarted) -> None:
    node = state.node(fact.run_id, fact.node_id)
    if node is not None and node.started_at_s is None:
        node.started_at_s = fact.at_s


def _stepped(state: State, fact: StepDone) -> None:
    state.free_pages = fact.free_pages
    state.evictable_pages = fact.evictable_pages
    if fact.step is not None:
        state.gate.stepped(fact.step)
    for one in fact.admissions:
        node = state.requests.get(one.request_id)
        if node is not None:
            admitted(node, one.at_s)


def _held(state: State, fact: Held) -> None:
    if node := state.node(fact.run_id, fact.node_id):
        node.holds += 1
        state.ready.pop(node, None)
        state.workers.drop(node)
        if node.held_at_s is not None:
            state.gate.forget(node.run, node)
            node.run.wait_no_more(node, node.held_at_s)
            node.held_at_s = None


def _released(state: State, fact: Released) -> None:
    if node := state.node(fact.run_id, fact.node_id):
        node.holds -= 1
        _consider(state, node, max(fact.at_s, node.declared_at_s))


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
    account = state.tenants.began(fact.tenant)
    run = state.runs[fact.run_id] = RunState(fact, state.estimates, account)
    run.admitted = state.gate.is_open


def _run_finished(state: State, fact: RunFinished) -> None:
    run = state.runs.pop(fact.run_id)
    run_ended(run, fact)
    state.gate.forget(run)
    state.tenants.ended(run.account)


TAKES: dict[type[Any], Callable[[State, Any], None] | None] = {
    NodeDeclared: _declared,
    NodeDemanded: _demanded,
    NodeFinished: _finished,
    RequestSent: _sent,
    HoleFilled: _filled,
    PromptRevised: _revised,
    FirstToken: _first_token,
    ToolStarted: _tool_started,
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
    Scheduled: None,
    ItemClosed: None,
    AttemptFailed: None,
    PrefixLost: None,
    ToolEnded: None,
    BackendDown: None,
}

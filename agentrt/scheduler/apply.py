"""From events to state: deterministic, without I/O or a clock; changes the state in place."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from agentrt.protocol import events
from agentrt.protocol.step_output import BackendDown, StepDone
from agentrt.scheduler import decisions, internal_events
from agentrt.scheduler.accounting import record_admitted, record_ended, record_sent, update_rest
from agentrt.scheduler.admission.hopeless import PROBE_EVERY, hopeless_refusal, note_hopeless
from agentrt.scheduler.demand import end_input, update_demand
from agentrt.scheduler.internal_events import InternalEvent
from agentrt.scheduler.learning import learn_run
from agentrt.scheduler.order.upward_rank import MIN_CHANGE, propagate_rank, recompute_ranks
from agentrt.scheduler.runs.run import NodeState, RunState
from agentrt.scheduler.state import State

_depth = attrgetter("depth")


def apply(state: State, event: InternalEvent) -> None:
    """Apply one event, or a decision that was carried out; nodes that have ended stay as they are.

    Transitions are looked up in tables: a node has many events, and a `match` over fifteen classes
    costs more than all that follows. A test compares the tables with `InternalEvent`.
    """
    kind = type(event)
    node_transition = NODE_TRANSITIONS.get(kind)
    if node_transition is not None:
        known: Any = event
        try:
            node = state.runs[known.run_id].nodes[known.node_id]
        except KeyError:  # its run is over
            return
        if node.status != "ended":
            node_transition(state, node, known)
        return
    transition = TRANSITIONS[kind]
    if transition is not None:
        transition(state, event)


def _declared(state: State, event: events.NodeDeclared) -> None:
    run = state.runs[event.run_id]
    node = NodeState.declare(run, event, state.declared_count)
    state.declared_count += 1
    run.nodes[event.node_id] = node
    if node.parent is not None:
        node.parent.children[node] = None
    _add_causes(node, event)
    if node.kind != "program" or node.parent is None:
        run.update_path(node, event.at_s)
        if run.waiting:
            update_rest(state, run)
    if node.inputs:
        changed: dict[NodeState, None] = {}
        for source in node.inputs:
            propagate_rank(source, changed)
        recompute_ranks(run, changed)
        _update_ranks(state, changed)
    if node.parent is None and state.config.refuse_hopeless:
        hopeless = hopeless_refusal(node)
        if hopeless is not None and note_hopeless(node) % PROBE_EVERY:
            state.to_refuse[node] = hopeless
    node.starts_incomplete = node.kind == "program" or node.model in state.incomplete_roles
    if node.expires_at_s is not None:
        heapq.heappush(state.deadlines, (node.expires_at_s, node.arrival, node))
    _make_ready(state, node, event.at_s)


def _add_causes(node: NodeState, event: events.NodeDeclared) -> None:
    """Note what had to exist or end before a new node, and which of it still owes it a value."""
    known = node.run.nodes
    causes = [known[dep] for dep in event.deps if dep in known] if event.deps else []
    inputs = causes
    plan = None if event.plan is None else known.get(event.plan)
    if plan is not None:
        causes = [*causes, plan]
        if event.effects == "write":  # the model may still change its plan
            inputs = causes
    waited_for = None if event.after is None else known.get(event.after)
    if waited_for is not None:
        causes = [*causes, waited_for]
    if causes:
        node.causes = tuple(causes)
        node.depth = max(map(_depth, causes)) + 1
    elif node.parent is not None:
        node.depth = node.parent.depth + 1
    if inputs:
        node.inputs = tuple([source for source in inputs if source.status != "ended"])
        node.unfinished_inputs = len(node.inputs)
        for source in node.inputs:
            source.dependents[node] = None


def _update_ranks(state: State, changed: dict[NodeState, None]) -> None:
    """Update the engines of nodes with a much changed rank, and reorder waiting tools."""
    for one in changed:
        if one.request_id is not None:
            reported_s = one.reported_rank_s
            if one.started_at_s is None and abs(one.rank_s - reported_s) > MIN_CHANGE * reported_s:
                one.reported_rank_s = one.rank_s
                state.to_update[one] = None
        elif one in state.tool_slots.waiting:
            state.tool_slots.enqueue_tool(one)


def _make_ready(state: State, node: NodeState, at_s: float) -> None:
    """Make a node ready unless something holds it back."""
    if node.status != "waiting" or node.holds or node.is_stopping:
        return
    if node.unfinished_inputs and not node.starts_incomplete:
        return
    if node.needs_thread:
        state.tool_slots.enqueue_tool(node)
    elif node.kind == "generate" and not node.run.admitted:
        state.admission.hold_generation(node, at_s)
    elif (
        node.kind == "generate"
        and state.admission.foresees  # only replays do: the others need no call
        and state.admission.gives_way(node.run)
    ):
        state.admission.suspend_run(node.run)
        state.admission.hold_generation(node, at_s)
    else:
        state.ready[node] = None


def _finished(state: State, node: NodeState, event: events.NodeFinished) -> None:
    if node.needs_thread and node.status == "running":
        state.tool_slots.busy -= 1
    node.status = "ended"
    node.finished_at_s = event.at_s
    state.ended_count += 1
    node.end_index = state.ended_count
    record_ended(state, node, event)
    for table in (state.ready, state.to_fill, state.to_stop, state.to_refuse, state.to_update):
        if table:  # most are empty
            table.pop(node, None)
    if node.needs_thread:
        state.tool_slots.remove_tool(node)
    if node.parent is not None:
        node.parent.children.pop(node, None)
    for dependent in node.dependents:
        if dependent.status == "ended" or dependent.kind == "program":
            continue
        dependent.unfinished_inputs -= 1
        if dependent.status == "running" or event.outcome != "ok":
            state.to_fill[dependent] = None
        _make_ready(state, dependent, event.at_s)
    node.dependents.clear()
    for source in node.inputs:
        source.dependents.pop(node, None)
        end_input(state, source)
        if source.status != "ended":
            changed: dict[NodeState, None] = {}
            propagate_rank(source, changed)
            _update_ranks(state, changed)
    node.inputs = ()
    if state.deadlines:
        _drop_deadlines(state)


def _drop_deadlines(state: State) -> None:
    """Drop deadlines of nodes that have ended or are about to."""
    deadlines = state.deadlines
    while deadlines and (deadlines[0][2].status == "ended" or deadlines[0][2].is_stopping):
        heapq.heappop(deadlines)


def _started(state: State, node: NodeState, decision: decisions.Send | decisions.Start) -> None:
    state.ready.pop(node, None)
    if node.needs_thread:
        state.tool_slots.remove_tool(node)
    if node.status == "waiting":
        node.status = "running"
        state.tool_slots.busy += node.needs_thread


def _fill_sent(state: State, node: NodeState, decision: decisions.Fill) -> None:
    state.to_fill.pop(node, None)


def _stopped(
    state: State,
    node: NodeState,
    decision: decisions.StopNode | decisions.Expire | decisions.Refuse,
) -> None:
    node.is_stopping = True
    _drop_deadlines(state)
    for table in (state.ready, state.to_fill, state.to_stop, state.to_refuse):
        table.pop(node, None)
    state.tool_slots.remove_tool(node)
    state.admission.remove_held(node)


def _updated(state: State, decision: decisions.UpdateInfo) -> None:
    for one in [node for node in state.to_update if node.model == decision.model]:
        del state.to_update[one]


def _admitted(state: State, decision: decisions.Admit) -> None:
    admission = state.admission
    admission.end_round(decision.at_s, decision.closed)
    for one in decision.decisions:
        run = state.runs.get(one.run_id)
        if run is None or run not in admission.held:
            continue
        if one.admitted:
            for node in admission.admit_run(run, decision.at_s):
                state.ready[node] = None
        else:
            admission.held[run] = True


def _demanded(state: State, node: NodeState, event: events.NodeDemanded) -> None:
    node.awaited = True
    update_demand(state, node)


def _demand_ended(state: State, node: NodeState, event: internal_events.DemandEnded) -> None:
    node.awaited = False
    update_demand(state, node)


def _first_token(state: State, node: NodeState, event: events.FirstToken) -> None:
    record_admitted(node, event.at_s)


def _filled(state: State, node: NodeState, event: events.HoleFilled) -> None:
    """A prompt is complete: from now on it waits for its engine."""
    if node.request_id is not None and node.started_at_s is None:
        node.run.start_waiting(node, event.at_s)
        state.admission.add_active(node)


def _revised(state: State, node: NodeState, event: events.PromptRevised) -> None:
    """A prompt has changed: the generation starts anew, and no input of it is pending."""
    if node.is_stopping:
        return
    node.status = "waiting"
    if node.request_id is not None:
        state.requests.pop(node.request_id, None)
        node.request_id = None
        node.started_at_s = None
        node.run.stop_waiting(node, event.at_s)
        state.admission.remove_active(node, event.at_s)
    if event.deps:
        node.after = event.deps[-1]
    state.to_update.pop(node, None)
    state.ready[node] = None


def _tool_started(state: State, node: NodeState, event: events.ToolStarted) -> None:
    if node.started_at_s is None:
        node.started_at_s = event.at_s


def _stepped(state: State, event: StepDone) -> None:
    state.free_pages = event.free_pages
    state.evictable_pages = event.evictable_pages
    if event.step is not None:
        state.admission.note_step(event.step)
    for one in event.admissions:
        node = state.requests.get(one.request_id)
        if node is not None:
            record_admitted(node, one.at_s)


def _held(state: State, node: NodeState, event: internal_events.Held) -> None:
    node.holds += 1
    state.ready.pop(node, None)
    state.tool_slots.remove_tool(node)
    if node.held_at_s is not None:
        state.admission.remove_held(node)
        node.run.stop_waiting(node, node.held_at_s)
        node.held_at_s = None


def _released(state: State, node: NodeState, event: internal_events.Released) -> None:
    node.holds -= 1
    _make_ready(state, node, max(event.at_s, node.declared_at_s))


def _cancel_wanted(state: State, node: NodeState, event: internal_events.CancelRequested) -> None:
    if not node.is_stopping:
        state.to_stop.setdefault(node, event.reason)


def _close_wanted(state: State, node: NodeState, event: internal_events.CloseRequested) -> None:
    if not node.is_stopping:
        node.deadline_at_s = event.at_s
        if node.request_id is not None:
            state.to_update[node] = None


def _options_known(state: State, node: NodeState, event: internal_events.OptionsKnown) -> None:
    if not node.is_stopping:
        state.to_fill[node] = None


def _run_started(state: State, event: events.RunStarted) -> None:
    account = state.fair_share.begin_run(event.tenant)
    session = state.sessions.begin_run(event.tenant, event.session, event.at_s)
    run = state.runs[event.run_id] = RunState.begin(event, state.estimates, account, session)
    run.admitted = state.admission.is_disabled


def _run_finished(state: State, event: events.RunFinished) -> None:
    run = state.runs.pop(event.run_id)
    learn_run(run, event)
    state.admission.remove_run(run)
    state.fair_share.end_run(run.account)
    state.sessions.end_run(run.session, run.waited_until(event.at_s))


def _kv_room(state: State, event: internal_events.KvRoomLearned) -> None:
    admission = state.admission
    is_new = event.role not in admission.budgets
    admission.set_kv_tokens(event.role, event.kv_tokens)
    if not is_new or admission.is_disabled:
        return
    for run in state.runs.values():
        if run.admitted:
            admission.note_admitted(run, event.at_s)
    for node in state.requests.values():
        if node.model == event.role:
            admission.add_active(node)


NODE_TRANSITIONS: dict[type[Any], Callable[[State, NodeState, Any], None]] = {
    events.NodeDemanded: _demanded,
    events.NodeFinished: _finished,
    events.RequestSent: record_sent,
    events.HoleFilled: _filled,
    events.PromptRevised: _revised,
    events.FirstToken: _first_token,
    events.ToolStarted: _tool_started,
    internal_events.Held: _held,
    internal_events.Released: _released,
    internal_events.DemandEnded: _demand_ended,
    internal_events.CancelRequested: _cancel_wanted,
    internal_events.CloseRequested: _close_wanted,
    internal_events.OptionsKnown: _options_known,
    internal_events.TextYielded: lambda state, node, event: None,
    decisions.Send: _started,
    decisions.Start: _started,
    decisions.Fill: _fill_sent,
    decisions.StopNode: _stopped,
    decisions.Expire: _stopped,
    decisions.Refuse: _stopped,
}
TRANSITIONS: dict[type[Any], Callable[[State, Any], None] | None] = {
    events.NodeDeclared: _declared,
    StepDone: _stepped,
    decisions.UpdateInfo: _updated,
    decisions.Admit: _admitted,
    internal_events.KvRoomLearned: _kv_room,
    events.RunStarted: _run_started,
    events.RunFinished: _run_finished,
    # For observers only; their consequences arrive as other events.
    events.Scheduled: None,
    events.ItemClosed: None,
    events.AttemptFailed: None,
    events.PrefixLost: None,
    events.ToolEnded: None,
    BackendDown: None,
}

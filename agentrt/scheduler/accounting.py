"""The life of a generation with its engine: sent, admitted, ended; and what is booked for it."""

from __future__ import annotations

from agentrt.protocol.events import NodeFinished, RequestSent
from agentrt.protocol.step_output import Ledger
from agentrt.scheduler.admission.kv_need import peak_tokens
from agentrt.scheduler.admission.thrashing import ROUNDING_TOKENS
from agentrt.scheduler.learning import node_ended, service_s
from agentrt.scheduler.order.order import QUANTUM_S
from agentrt.scheduler.runs.footprint import Footprint
from agentrt.scheduler.runs.run import NodeState, RunState
from agentrt.scheduler.state import State

REST_CHANGE = 0.25
"""Part by which what a run still needs must have changed before its engines are told."""

UNKNOWN_OUTPUT_TOKENS = 128.0


def sent(state: State, node: NodeState, fact: RequestSent) -> None:
    """Its engine has it."""
    run = node.run
    node.request_id = fact.request_id
    node.held_at_s = None
    state.requests[fact.request_id] = node
    state.next_request = max(state.next_request, fact.request_id + 1)
    run.told_rest_s = run.rest_s
    node.told_rank_s = node.rank_s
    if not fact.complete:
        run.wait_no_more(node, fact.at_s)
    else:
        run.wait(node, fact.at_s)
    if node.model in state.gate.rooms:
        if fact.complete:
            state.gate.works(node)
        node.prompt_tokens = fact.prompt_tokens
        _occupy(node)


def admitted(node: NodeState, at_s: float) -> None:
    """It has its place in a step."""
    if node.started_at_s is None:
        node.started_at_s = at_s
        node.run.wait_no_more(node, at_s)


def ended(state: State, node: NodeState, event: NodeFinished) -> None:
    """Book what it took, and learn from it."""
    run = node.run
    node_ended(node, event)
    if node.kind != "generate":
        return
    if node in run.waiting:
        run.wait_no_more(node, event.at_s)
    if node.held_at_s is not None:
        state.gate.forget(run, node)
    if node.request_id is not None:
        state.requests.pop(node.request_id, None)
    if node.model in state.gate.rooms:
        state.gate.rests(node, event.at_s)
        if event.ledger is not None:
            lost_tokens = _lost_tokens(node, event.ledger)
            again_s = _again_s(event.ledger, lost_tokens)
            state.gate.ended(event.ledger, lost_tokens, event.at_s, again_s)
        _vacate(node, event)
    if event.ledger is not None:
        had_s = service_s(event.ledger)
        run.attained_s += had_s
        memory_s = _memory_s(state, node, event.ledger) if state.gate.rooms else 0.0
        run.account.charge(had_s, memory_s)
        if run.waiting:
            rest_changed(state, run)
        if len(state.tenants.active) > 1:
            _debts_changed(state)


def rest_changed(state: State, run: RunState) -> None:
    """What a run still needs may be another: tell the engines where it waits, if by much."""
    rest_s = run.rest_s
    if abs(rest_s - run.told_rest_s) > REST_CHANGE * run.told_rest_s:
        _tell(state, run)


def _debts_changed(state: State) -> None:
    """Tell the engines of tenants whose debt is another in quanta of the order."""
    moved = {account for account in state.tenants.active.values() if account.has_moved(QUANTUM_S)}
    if moved:
        for run in state.runs.values():
            if run.account in moved:
                _tell(state, run)


def _tell(state: State, run: RunState) -> None:
    run.told_rest_s = run.rest_s
    for node in run.waiting:
        if node.request_id is not None:
            state.to_tell[node] = None


def _occupy(node: NodeState) -> None:
    """The KV that it is expected to need: some of its own, the rest shared with others of its run.

    What a site's generations made themselves is learned; until then all of the prompt counts.
    """
    whole = node.prompt_tokens + node.place.mean("output_tokens", UNKNOWN_OUTPUT_TOKENS)
    own = min(whole, node.place.mean("own_tokens", whole))
    node.context_tokens = own
    footprint = _footprint(node)
    footprint.begin_generation(node.node_id, node.prompt_tokens)
    footprint.running_tokens += own
    footprint.share(whole - own)
    footprint.look()


def _vacate(node: NodeState, event: NodeFinished) -> None:
    footprint = node.run.footprints.get(node.model)
    if footprint is None or not node.context_tokens:
        return
    ledger = event.ledger
    if ledger is not None and ledger.prompt_tokens:
        shared = min(ledger.cached_tokens, ledger.prompt_tokens)
        own = ledger.prompt_tokens - shared + ledger.output_tokens
        footprint.running_tokens += own - node.context_tokens
        footprint.share(shared)
        footprint.measure()
        node.context_tokens = own
        if event.outcome == "ok":
            node.place.observe("own_tokens", own)
            footprint.trunk_tokens = ledger.prompt_tokens + ledger.output_tokens
            footprint.longest_tokens = max(footprint.longest_tokens, footprint.trunk_tokens)
    footprint.running_tokens = max(0.0, footprint.running_tokens - node.context_tokens)
    footprint.look()


def _lost_tokens(node: NodeState, ledger: Ledger) -> float:
    """Of its prompt, what the run had had in the cache, and found no more."""
    footprint = node.run.footprints.get(node.model)
    awaited = 0.0 if footprint is None else footprint.awaited_tokens.pop(node.node_id, 0.0)
    computed = max(0, ledger.prompt_tokens - ledger.cached_tokens)
    return min(float(computed), max(0.0, awaited - ROUNDING_TOKENS - ledger.cached_tokens))


def _again_s(ledger: Ledger, lost_tokens: float) -> float:
    """Time of the engine's that went into KV that the run had had, and lost."""
    computed = max(0, ledger.prompt_tokens - ledger.cached_tokens) + ledger.recomputed_tokens
    steps_s = ledger.prefill_s + ledger.decode_s
    if not steps_s or not computed:
        return 0.0
    again = (lost_tokens + ledger.recomputed_tokens) / computed
    return again * service_s(ledger) * ledger.prefill_s / steps_s


def _footprint(node: NodeState) -> Footprint:
    run = node.run
    known = run.footprints.get(node.model)
    if known is None:
        known = run.footprints[node.model] = Footprint(peak_tokens(run, node.model))
    return known


def _memory_s(state: State, node: NodeState, ledger: Ledger) -> float:
    """Its share of the KV memory, times the seconds that it had it."""
    room = state.gate.rooms.get(node.model)
    if room is None or not ledger.admitted_at_s:
        return 0.0
    share = (ledger.prompt_tokens + ledger.output_tokens) / room.kv_tokens
    return share * max(0.0, ledger.finished_at_s - ledger.admitted_at_s)

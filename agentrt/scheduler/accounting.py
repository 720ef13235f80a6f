"""Accounting of generations: sent to the engine, admitted there, ended; the service they took."""

from __future__ import annotations

from agentrt.protocol.events import NodeFinished, RequestSent
from agentrt.protocol.step_output import Ledger
from agentrt.scheduler.admission.kv_need import peak_tokens
from agentrt.scheduler.admission.thrashing import ROUNDING_TOKENS
from agentrt.scheduler.learning import learn_node
from agentrt.scheduler.order.order import QUANTUM_S
from agentrt.scheduler.runs.footprint import Footprint
from agentrt.scheduler.runs.run import NodeState, RunState
from agentrt.scheduler.state import State

MIN_REST_CHANGE = 0.25
"""Share by which a run's remaining service must change before its engines are updated."""

DEFAULT_OUTPUT_TOKENS = 128.0


def record_sent(state: State, node: NodeState, event: RequestSent) -> None:
    """Record that its engine has the request."""
    run = node.run
    node.request_id = event.request_id
    node.held_at_s = None
    state.requests[event.request_id] = node
    state.next_request = max(state.next_request, event.request_id + 1)
    run.reported_rest_s = run.rest_s
    node.reported_rank_s = node.rank_s
    if not event.complete:
        run.stop_waiting(node, event.at_s)
    else:
        run.start_waiting(node, event.at_s)
    if node.model in state.admission.budgets:
        if event.complete:
            state.admission.add_active(node)
        node.prompt_tokens = event.prompt_tokens
        _add_to_footprint(node)


def record_admitted(node: NodeState, at_s: float) -> None:
    """Record that it was admitted to a step."""
    if node.started_at_s is None:
        node.started_at_s = at_s
        node.run.stop_waiting(node, at_s)


def record_ended(state: State, node: NodeState, event: NodeFinished) -> None:
    """Record the service it took, and learn from it."""
    run = node.run
    learn_node(node, event)
    if node.kind != "generate":
        return
    if node in run.waiting:
        run.stop_waiting(node, event.at_s)
    if node.held_at_s is not None:
        state.admission.remove_held(node)
    if node.request_id is not None:
        state.requests.pop(node.request_id, None)
    if node.model in state.admission.budgets:
        state.admission.remove_active(node, event.at_s)
        if event.ledger is not None and not event.ledger.is_cached:
            lost_tokens = _lost_tokens(node, event.ledger)
            recompute_s = _recompute_s(event.ledger, lost_tokens)
            state.admission.note_end(event.ledger, lost_tokens, event.at_s, recompute_s)
        _remove_from_footprint(node, event)
    if event.ledger is not None:
        consumed_s = event.ledger.device_s
        run.attained_s += consumed_s
        if run.session is not None:
            run.session.attained_s += consumed_s
        memory_s = _memory_s(state, node, event.ledger) if state.admission.budgets else 0.0
        run.account.charge(consumed_s, memory_s)
        if run.waiting:
            update_rest(state, run)
        if len(state.fair_share.active) > 1:
            _update_debts(state)


def update_rest(state: State, run: RunState) -> None:
    """Update the engines where a run waits, if its remaining service has changed enough."""
    rest_s = run.rest_s
    if abs(rest_s - run.reported_rest_s) > MIN_REST_CHANGE * run.reported_rest_s:
        _update_engines(state, run)


def _update_debts(state: State) -> None:
    """Update the engines of tenants with a debt that has changed by a quantum of the order."""
    changed = {
        account for account in state.fair_share.active.values() if account.debt_changed(QUANTUM_S)
    }
    if changed:
        for run in state.runs.values():
            if run.account in changed:
                _update_engines(state, run)


def _update_engines(state: State, run: RunState) -> None:
    run.reported_rest_s = run.rest_s
    for node in run.waiting:
        if node.request_id is not None:
            state.to_update[node] = None


def _add_to_footprint(node: NodeState) -> None:
    """Add the KV that a generation is expected to need: part its own, the rest shared with its run.

    The share of its own is learned by call site; until then the whole prompt counts.
    """
    total = node.prompt_tokens + node.estimates.mean("output_tokens", DEFAULT_OUTPUT_TOKENS)
    own = min(total, node.estimates.mean("own_tokens", total))
    node.context_tokens = own
    footprint = _footprint(node)
    footprint.add_generation(node.node_id, node.prompt_tokens)
    footprint.running_tokens += own
    footprint.note_shared(total - own)
    footprint.update_context()


def _remove_from_footprint(node: NodeState, event: NodeFinished) -> None:
    footprint = node.run.footprints.get(node.model)
    if footprint is None or not node.context_tokens:
        return
    ledger = event.ledger
    if ledger is not None and ledger.prompt_tokens:
        shared = min(ledger.cached_tokens, ledger.prompt_tokens)
        own = ledger.prompt_tokens - shared + ledger.output_tokens
        footprint.running_tokens += own - node.context_tokens
        footprint.note_shared(shared)
        footprint.update_peak()
        node.context_tokens = own
        if event.outcome == "ok":
            node.estimates.observe("own_tokens", own)
            footprint.last_context_tokens = ledger.prompt_tokens + ledger.output_tokens
            footprint.longest_tokens = max(footprint.longest_tokens, footprint.last_context_tokens)
    footprint.running_tokens = max(0.0, footprint.running_tokens - node.context_tokens)
    footprint.update_context()


def _lost_tokens(node: NodeState, ledger: Ledger) -> float:
    """Prompt tokens that the run had had in the cache and that were no longer there."""
    footprint = node.run.footprints.get(node.model)
    expected = 0.0 if footprint is None else footprint.expected_cached_tokens.pop(node.node_id, 0.0)
    computed = max(0, ledger.prompt_tokens - ledger.cached_tokens)
    return min(float(computed), max(0.0, expected - ROUNDING_TOKENS - ledger.cached_tokens))


def _recompute_s(ledger: Ledger, lost_tokens: float) -> float:
    """Time of the engine spent on recomputing KV that the run had lost."""
    computed = max(0, ledger.prompt_tokens - ledger.cached_tokens) + ledger.recomputed_tokens
    steps_s = ledger.prefill_s + ledger.decode_s
    if not steps_s or not computed:
        return 0.0
    share = (lost_tokens + ledger.recomputed_tokens) / computed
    return share * ledger.device_s * ledger.prefill_s / steps_s


def _footprint(node: NodeState) -> Footprint:
    run = node.run
    known = run.footprints.get(node.model)
    if known is None:
        known = run.footprints[node.model] = Footprint(peak_tokens(run, node.model))
    return known


def _memory_s(state: State, node: NodeState, ledger: Ledger) -> float:
    """Share of the KV cache, times the seconds for which the generation had it."""
    budget = state.admission.budgets.get(node.model)
    if budget is None or not ledger.admitted_at_s:
        return 0.0
    share = (ledger.prompt_tokens + ledger.output_tokens) / budget.kv_tokens
    return share * max(0.0, ledger.finished_at_s - ledger.admitted_at_s)

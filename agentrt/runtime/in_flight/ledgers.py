"""Ledgers of nodes that share the request of another one."""

from __future__ import annotations

from dataclasses import replace

from agentrt.protocol.priced_backend import priced
from agentrt.protocol.step_output import Ledger
from agentrt.runtime.in_flight.cached_answer import CachedAnswer
from agentrt.runtime.in_flight.in_flight import InFlight


def departed_ledger(request: InFlight, now_s: float) -> Ledger:
    """The ledger of a node that left a request before its end, from what it saw of it.

    If other nodes go on with the request, they pay for it.
    """
    assert request.sent is not None
    joined_at_s, prompt_tokens = request.joined_at_s, len(request.prompt_ids)
    since_s = request.sent.submitted_at_s if joined_at_s is None else joined_at_s
    first_at_s = request.gen.written.first_token_at_s if request.has_output else now_s
    prices = request.takes.prices
    ledger = Ledger(
        received_at_s=since_s,
        completed_at_s=since_s,
        admitted_at_s=since_s,
        first_token_at_s=request.gen.written.first_token_at_s,
        finished_at_s=now_s,
        queue_s=max(0.0, first_at_s - since_s),
        decode_s=max(0.0, now_s - first_at_s),
        prompt_tokens=prompt_tokens,
        cached_tokens=0 if joined_at_s is None else prompt_tokens,
        output_tokens=len(request.output_ids),
        source="inferred",
        currency="" if prices is None else prices.currency,
    )
    if prices is None or not request.is_overdue:
        return ledger
    return priced(ledger, prices, ledger.device_s)


def cached_ledger(answer: CachedAnswer, now_s: float) -> Ledger:
    """The ledger of a node with an answer of the response cache, which took no engine any time."""
    return Ledger(
        received_at_s=now_s,
        completed_at_s=now_s,
        admitted_at_s=now_s,
        first_token_at_s=now_s,
        finished_at_s=now_s,
        prompt_tokens=answer.prompt_tokens,
        cached_tokens=answer.prompt_tokens,
        output_tokens=answer.output_tokens,
        thinking_tokens=answer.thinking_tokens,
        source="inferred",
        currency=answer.currency,
        is_cached=True,
        saved_pico=answer.cost_pico,
    )


def unpaid(ledger: Ledger) -> Ledger:
    """The ledger of a node if another one pays for the request that they share."""
    if not ledger.cost_pico and not ledger.is_estimated:
        return ledger
    return replace(ledger, cost_pico=0, retried_cost_pico=0, is_estimated=False)


def joined_ledger(ledger: Ledger, joined_at_s: float) -> Ledger:
    """The ledger of a node that joined a request in flight at `joined_at_s`.

    Nothing was computed for the node, so its whole prompt was cached and it took part in no step.
    Of the times of the request it has the last ones: of decoding, before that of prefill, before
    that of the queue. The cost is that of the request: see `unpaid`.
    """
    left_s = max(0.0, ledger.finished_at_s - max(joined_at_s, ledger.completed_at_s))
    lasted = (
        ledger.decode_s,
        ledger.prefill_s,
        ledger.kv_reload_s,
        ledger.constraint_s,
        ledger.queue_s,
    )
    parts: list[float] = []
    for seconds in lasted:
        parts.append(min(left_s, seconds))
        left_s -= parts[-1]
    decode_s, prefill_s, kv_reload_s, constraint_s, queue_s = parts
    first_at_s = ledger.first_token_at_s
    return replace(
        ledger,
        received_at_s=max(joined_at_s, ledger.received_at_s),
        completed_at_s=max(joined_at_s, ledger.completed_at_s),
        admitted_at_s=max(joined_at_s, ledger.admitted_at_s),
        first_token_at_s=max(joined_at_s, first_at_s) if first_at_s else 0.0,
        queue_s=queue_s,
        server_queue_s=min(queue_s, ledger.server_queue_s),  # the last part of the queue
        kv_reload_s=kv_reload_s,
        prefill_s=prefill_s,
        decode_s=decode_s,
        constraint_s=constraint_s,
        cached_tokens=ledger.prompt_tokens,
        cached_host_tokens=0,
        recomputed_tokens=0,
        prefill_chunks=0,
        steps=0,
        batch_size_sum=0,
        preemptions=0,
        retried_tokens=0,
        retried_prompt_tokens=0,
        drafts=(),
    )

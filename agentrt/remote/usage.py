"""Ledger of a remote request: the server's own timings if reported, else times seen from here."""

from __future__ import annotations

from dataclasses import dataclass

from agentrt.protocol.step_output import Ledger
from agentrt.remote.chunks import ChunkReader


@dataclass(slots=True)
class RequestTimes:
    """Instants of one request, on our clock.

    Attributes:
        sent_at_s: Instant of sending.
        first_at_s: Arrival of the first text; 0.0 if there was none.
        retried_tokens: Tokens of attempts that broke off.
    """

    sent_at_s: float
    first_at_s: float = 0.0
    retried_tokens: int = 0


def ledger(reader: ChunkReader, times: RequestTimes, now_s: float) -> Ledger:
    """The ledger of a request that ended at `now_s`.

    The server reports the times of one attempt: of several, they are those seen from here.
    """
    once = times.first_at_s and not times.retried_tokens
    reported = _reported(reader) if once else None
    if reported is None:
        queue_s, prefill_s = 0.0, (times.first_at_s or now_s) - times.sent_at_s
        received_at_s, first_token_at_s = times.sent_at_s, times.first_at_s
    else:
        queue_s, prefill_s, decode_s = reported
        # The server's own time ends with the answer; time on the wire before it is not its.
        received_at_s = max(times.sent_at_s, now_s - queue_s - prefill_s - decode_s)
        first_token_at_s = min(now_s, received_at_s + queue_s + prefill_s)
    return Ledger(
        received_at_s=received_at_s,
        completed_at_s=received_at_s,
        admitted_at_s=received_at_s + queue_s,
        first_token_at_s=first_token_at_s,
        finished_at_s=now_s,
        queue_s=queue_s,
        prefill_s=prefill_s,
        decode_s=max(0.0, now_s - received_at_s - queue_s - prefill_s),
        source="inferred" if reported is None else "engine_reported",
        retried_tokens=times.retried_tokens,
        prompt_tokens=int(reader.usage.get("prompt_tokens") or 0),
        cached_tokens=_cached_tokens(reader),
        output_tokens=output_tokens(reader),
        thinking_tokens=_thinking_tokens(reader),
    )


def _cached_tokens(reader: ChunkReader) -> int:
    """Prompt tokens found in the server's cache, from vLLM's details or llama.cpp's timings."""
    details = reader.usage.get("prompt_tokens_details") or {}
    return int(details.get("cached_tokens") or reader.timings.get("cache_n") or 0)


def _thinking_tokens(reader: ChunkReader) -> int:
    """Tokens of reasoning; if the server does not report them, a chunk counts as one."""
    details = reader.usage.get("completion_tokens_details") or {}
    return int(details.get("reasoning_tokens") or reader.reasoning_chunks)


def output_tokens(reader: ChunkReader) -> int:
    """Tokens of one answer; if the stream broke before the report, a chunk counts as one."""
    return int(reader.usage.get("completion_tokens") or reader.chunks)


def _reported(reader: ChunkReader) -> tuple[float, float, float] | None:
    """Reported queue, prefill and decode time, from vLLM's `metrics` or llama.cpp's `timings`."""
    timings = reader.timings
    if "prompt_ms" in timings and "predicted_ms" in timings:
        return 0.0, timings["prompt_ms"] / 1e3, timings["predicted_ms"] / 1e3
    if "time_to_first_token_ms" in timings and "generation_time_ms" in timings:
        queue_s = (timings.get("queue_time_ms") or 0.0) / 1e3
        prefill_s = timings["time_to_first_token_ms"] / 1e3
        return queue_s, prefill_s, timings["generation_time_ms"] / 1e3
    return None

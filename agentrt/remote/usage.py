"""The ledger of a remote request: what the server tells of its time, else what we saw."""

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
    """

    sent_at_s: float
    first_at_s: float = 0.0


def ledger(reading: ChunkReader, watch: RequestTimes, now_s: float) -> Ledger:
    """The account of a request that ended `now_s`."""
    told = _told(reading)
    if told is None or watch.first_at_s == 0.0:
        return _inferred(reading, watch, now_s)
    queue_s, prefill_s, decode_s = told
    # The server's own time ends with the answer; what went before it on the wire is not its.
    received_at_s = max(watch.sent_at_s, now_s - queue_s - prefill_s - decode_s)
    return Ledger(
        received_at_s=received_at_s,
        completed_at_s=received_at_s,
        admitted_at_s=received_at_s + queue_s,
        first_token_at_s=min(now_s, received_at_s + queue_s + prefill_s),
        finished_at_s=now_s,
        queue_s=queue_s,
        prefill_s=prefill_s,
        decode_s=max(0.0, now_s - received_at_s - queue_s - prefill_s),
        source="engine_reported",
        **_counts(reading),
    )


def _inferred(reading: ChunkReader, watch: RequestTimes, now_s: float) -> Ledger:
    first_at_s = watch.first_at_s or now_s
    return Ledger(
        received_at_s=watch.sent_at_s,
        completed_at_s=watch.sent_at_s,
        admitted_at_s=watch.sent_at_s,
        first_token_at_s=watch.first_at_s,
        finished_at_s=now_s,
        prefill_s=first_at_s - watch.sent_at_s,
        decode_s=now_s - first_at_s,
        source="inferred",
        **_counts(reading),
    )


def _counts(reading: ChunkReader) -> dict[str, int]:
    """Tokens as told; when the stream was cut before that, a chunk counts as one token."""
    usage = reading.usage
    details = usage.get("prompt_tokens_details") or {}
    cached = details.get("cached_tokens") or reading.timings.get("cache_n") or 0
    return {
        "prompt_tokens": int(usage.get("prompt_tokens") or 0),
        "cached_tokens": int(cached),
        "output_tokens": int(usage.get("completion_tokens") or reading.chunks),
    }


def _told(reading: ChunkReader) -> tuple[float, float, float] | None:
    """Queue, prefill and decode in seconds, from vLLM's `metrics` or llama.cpp's `timings`."""
    timings = reading.timings
    if "prompt_ms" in timings and "predicted_ms" in timings:
        return 0.0, timings["prompt_ms"] / 1e3, timings["predicted_ms"] / 1e3
    if "time_to_first_token_ms" in timings and "generation_time_ms" in timings:
        queue_s = (timings.get("queue_time_ms") or 0.0) / 1e3
        prefill_s = timings["time_to_first_token_ms"] / 1e3
        return queue_s, prefill_s, timings["generation_time_ms"] / 1e3
    return None

"""A step of an engine that serves a workload, as a client sees it."""

from __future__ import annotations

from typing import NamedTuple


class StepSample(NamedTuple):
    """A step of the engine; a list of its fields on the wire.

    Attributes:
        seconds: Duration.
        prefill_tokens: Prompt tokens computed.
        decode_tokens: Sequences decoded.
        kv_tokens: Tokens of which keys and values were read.
        began_s: Instant at which it began.
        gap_s: Seconds since the step before; None if the engine may have had nothing to do.
        waiting: Requests that waited.
    """

    seconds: float
    prefill_tokens: int
    decode_tokens: int
    kv_tokens: int
    began_s: float
    gap_s: float | None
    waiting: int

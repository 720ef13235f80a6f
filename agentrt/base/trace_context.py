"""Trace context: the trace and the span that a piece of work belongs to, as W3C spells it.

Written here rather than taken from OpenTelemetry, whose API takes 100 ms to import: a command reads
one variable, and a request carries one header.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import Protocol

from agentrt.base.record import record

TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"
MAX_STATE_CHARACTERS = 512
"""Length of a `tracestate` that has to be passed on by W3C; a longer one is left out."""

_HEADER = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 0x01
_KNOWN_FLAGS = 0x03


@record
class TraceContext:
    """A span by its ids, as the parent of spans elsewhere.

    Attributes:
        trace_id: 32 hex digits, not all zero.
        span_id: 16 hex digits, not all zero.
        flags: Flags of W3C: whether the trace is recorded, and whether its id is random.
        state: `tracestate` of the vendors along the way; "" for none.
    """

    trace_id: str
    span_id: str
    flags: int = _SAMPLED
    state: str = ""

    @property
    def sampled(self) -> bool:
        """Whether the trace is recorded."""
        return bool(self.flags & _SAMPLED)

    def traceparent(self) -> str:
        """The value of a `traceparent` header.

        Example:
            >>> TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7").traceparent()
            '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
        """
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"

    def headers(self) -> dict[str, str]:
        """The headers of a request that is made for this span."""
        found = {TRACEPARENT: self.traceparent()}
        if self.state:
            found[TRACESTATE] = self.state
        return found


def trace_context_of(traceparent: str, state: str = "") -> TraceContext | None:
    """Read a `traceparent`; None if it is malformed, and then the trace begins anew.

    A later version of the header may be longer; what is known of it is read.

    Args:
        traceparent: Value of the header, or of the variable `TRACEPARENT`.
        state: Value of `tracestate`.

    Example:
        >>> trace_context_of("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").sampled
        True
    """
    match = _HEADER.fullmatch(traceparent.strip())
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    if version == "ff" or (version == "00" and more) or not int(trace_id, 16):
        return None
    if not int(span_id, 16):
        return None
    state = state.strip()
    is_kept = len(state) <= MAX_STATE_CHARACTERS and state.isascii() and state.isprintable()
    return TraceContext(trace_id, span_id, int(flags, 16) & _KNOWN_FLAGS, state if is_kept else "")


class CurrentSpan(Protocol):
    """The span of the running code, computed on access."""

    @property
    def run_id(self) -> str:
        """Id of the run."""
        ...

    @property
    def context(self) -> TraceContext | None:
        """The span; None if the run is not recorded and its caller has none."""
        ...


current_span: ContextVar[CurrentSpan | None] = ContextVar("agentrt_span", default=None)
"""Span of the program or tool that the current task or thread runs; None outside a run."""

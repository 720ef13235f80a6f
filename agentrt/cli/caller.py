"""The caller of a command, which may have a span of its own."""

from __future__ import annotations

from collections.abc import Mapping

from agentrt.base.trace_context import TRACEPARENT, TRACESTATE, TraceContext, trace_context_of
from agentrt.cli.run_summary import warn


def caller_of(environment: Mapping[str, str]) -> TraceContext | None:
    """The span that `TRACEPARENT` and `TRACESTATE` name; None without one.

    A malformed one costs a warning: it was set by another program, and the run begins a trace.
    """
    given = environment.get(TRACEPARENT.upper(), "").strip()
    if not given:
        return None
    found = trace_context_of(given, environment.get(TRACESTATE.upper(), ""))
    if found is None:
        warn(f"TRACEPARENT={given!r} is malformed: the trace begins here")
    return found

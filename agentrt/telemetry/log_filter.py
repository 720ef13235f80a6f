"""Log records that name the run and the span in which they were written."""

from __future__ import annotations

import logging

from agentrt.base.trace_context import current_span
from agentrt.telemetry.otel_context import ambient_span

FORMAT = "%(levelname)s %(name)s: %(message)s%(trace)s"
"""A format with the trace of a record, where it has one."""


class TraceLogFilter(logging.Filter):
    """Adds `trace_id`, `span_id`, `trace_flags` and `run_id` to records; it drops none.

    The first three are the names that OpenTelemetry gives them in logs of other formats; each is ""
    outside a span. `trace` is all of them in one text, for formats. Put it on a handler, so that it
    sees the records of all loggers:

    Example:
        >>> import sys
        >>> handler = logging.StreamHandler(sys.stdout)
        >>> handler.addFilter(TraceLogFilter())
        >>> handler.setFormatter(logging.Formatter(FORMAT))
        >>> record = logging.LogRecord("shop", logging.INFO, "shop.py", 1, "sold", None, None)
        >>> _ = handler.handle(record)
        INFO shop: sold
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields."""
        own = current_span.get()
        span = ambient_span() or (None if own is None else own.context)
        run_id = "" if own is None else own.run_id
        trace_id = "" if span is None else span.trace_id
        span_id = "" if span is None else span.span_id
        record.run_id, record.trace_id, record.span_id = run_id, trace_id, span_id
        record.trace_flags = "" if span is None else f"{span.flags:02x}"
        found = {"run": run_id, "trace": trace_id, "span": span_id}
        known = " ".join(f"{name}={value}" for name, value in found.items() if value)
        record.trace = f" [{known}]" if known else ""
        return True

"""The log of a server on standard error, with the trace of each request."""

from __future__ import annotations

import logging

from agentrt.telemetry.log_filter import FORMAT, TraceLogFilter


def log_with_traces() -> None:
    """Have our own loggers name the run and the span of each record, unless the user has a log."""
    logger = logging.getLogger("agentrt")
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.addFilter(TraceLogFilter())
    handler.setFormatter(logging.Formatter(FORMAT))
    logger.addHandler(handler)

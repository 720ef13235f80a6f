"""Lines on the standard output of a tool server that are no messages: one line of log for each.

The SDK logs each with a traceback of its parser. Servers greet there, or print to debug.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Any

LOGGER = "mcp.client.stdio"
MAX_CHARACTERS = 120

server_name: ContextVar[str] = ContextVar("agentrt_mcp_server", default="")
"""Name of the server that the current task reads; "" for one that is not ours."""


def shorten_reports() -> None:
    """Have the SDK's reports of such lines name server and line, in servers of ours."""
    logger = logging.getLogger(LOGGER)
    if _named_line not in logger.filters:
        logger.addFilter(_named_line)


def _named_line(record: logging.LogRecord) -> bool:
    name = server_name.get()
    error = record.exc_info[1] if record.exc_info else None
    if name and isinstance(error, ValueError):
        errors: list[Any] = getattr(error, "errors", list)()  # of pydantic, not imported for it
        line = str(errors[0].get("input", "")) if errors else str(error)
        record.msg = "MCP server %s: a line of its standard output is no message: %r"
        record.args = (name, line[:MAX_CHARACTERS])
        record.exc_info = record.exc_text = None
    return True

"""Functions of the caller around calls of tools, and the key of a call."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from hashlib import sha256
from typing import Any

from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.tools.spec import ToolSpec

tool_call_key: ContextVar[str] = ContextVar("agentrt_tool_call_key", default="")
"""Key of the tool call that the current task or thread makes; "" if none is known."""


@record
class WriteCall:
    """A call of a tool that is about to start, for `OnWrite` and `OnTool`.

    Attributes:
        call: Path of its node in the run, the same each time that the program takes the same way.
        spec: The tool.
        arguments: Arguments by name, without bound ones.
    """

    call: str
    spec: ToolSpec
    arguments: Mapping[str, Any]


OnWrite = Callable[[WriteCall, Callable[[], Coroutine[Any, Any, Any]]], Coroutine[Any, Any, Any]]
"""Takes a call of a `write` tool and the function that makes it, and gives its result."""

OnTool = OnWrite
"""The same for each attempt of any tool; a replay gives the result without making the call."""


def idempotency_key_of(*parts: str) -> str:
    """The key of a call that is named by these parts: 32 hex digits."""
    return sha256("\n".join(parts).encode()).hexdigest()[:32]


def idempotency_key() -> str:
    """The key of the tool call under way, for services that refuse to do one thing twice.

    No two calls have the same key. In a batch, a call that is made again by `--resume` and
    `--again` has the key that it had before, as long as its arguments are equal.

    Example:
        >>> from agentrt import idempotency_key, program, tool
        >>> @tool(effects="write")
        ... def pay(cents: int) -> int:
        ...     return len(idempotency_key())
        >>> @program
        ... async def settle() -> int:
        ...     return await pay(500)
        >>> settle.run()
        32

    Raises:
        UsageError: No tool call is under way.
    """
    key = tool_call_key.get()
    if not key:
        raise UsageError(
            "there is no idempotency key here: no tool call is under way",
            hint="Call idempotency_key() in the function of a tool",
        )
    return key

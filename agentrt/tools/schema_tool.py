"""A tool whose arguments come as a JSON Schema."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from agentrt.tools.schema_arguments import SchemaArguments
from agentrt.tools.spec import BACKOFF_S, Backoff, Effects, ToolSpec, check_settings


def schema_tool(
    fn: Callable[..., Awaitable[Any]],
    schemas: SchemaArguments,
    *,
    name: str,
    description: str = "",
    effects: Effects = "write",
    timeout_s: float | None = None,
    retries: int = 0,
    backoff: Backoff = BACKOFF_S,
    max_result_bytes: int | None = None,
    where: str = "",
    attributes: Mapping[str, str | int] | None = None,
) -> ToolSpec:
    """The tool for a coroutine function that takes any keywords; see `ToolSpec` for the rest.

    Args:
        fn: The function.
        schemas: The arguments.
        name: Name for the model.
        description: Description for the model.
        effects: Effect of a call on the world.
        timeout_s: Limit of one attempt; None sets none.
        retries: Number of further attempts.
        backoff: Pause before a further attempt.
        max_result_bytes: Limit on the text of a result; None takes that of the runtime.
        where: `file:line` that errors name.
        attributes: Attributes of the spans of its calls.

    Raises:
        UsageError: A name or setting cannot work.
    """
    check_settings(name, effects, timeout_s, retries, backoff, None, where)
    return ToolSpec(
        name=name,
        description=description,
        effects=effects,
        timeout_s=timeout_s,
        retries=retries,
        backoff=backoff,
        stable_for_s=None,
        fn=fn,
        is_async=True,
        max_result_bytes=max_result_bytes,
        where=where,
        schemas=schemas,
        attributes=attributes or {},
    )

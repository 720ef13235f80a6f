"""Tool calls as a constraint: the schema of each tool's arguments, checked and narrowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.base.segments import ToolSchema
from agentrt.structured.json_schema.declaration import json_spec, normal_form

MAX_TOOLS = 512
MAX_CALLS = 1024


def calls_spec(
    tools: Sequence[ToolSchema],
    final_schema: dict[str, Any] | None = None,
    min_calls: int = 1,
    max_calls: int = 32,
    *,
    text: bool = False,
) -> ConstraintSpec:
    """The constraint "call these tools", or answer by `final_schema` if that is given.

    Args:
        tools: Tools offered; their arguments are narrowed to what a model should write.
        final_schema: JSON Schema of an answer instead of calls.
        min_calls: Minimum number of calls; 0 allows none at all.
        max_calls: Maximum number of calls.
        text: Whether free text may stand around the calls; then `min_calls` is 0.

    Raises:
        ConstraintError: A schema cannot be enforced, or the counts are contradictory.
    """
    if not 0 <= min_calls <= max_calls or not 1 <= max_calls <= MAX_CALLS:
        raise ConstraintError(
            f"min_calls={min_calls}, max_calls={max_calls}",
            hint=f"Give 0 <= min_calls <= max_calls <= {MAX_CALLS}",
        )
    if text and (min_calls or final_schema is not None):
        raise ConstraintError(
            "free text around calls leaves neither a number of calls nor a final answer to enforce",
            hint="Give min_calls=0 and no final_schema",
        )
    if not tools and final_schema is None:
        raise ConstraintError("no tools to call", hint="Give one or more tools")
    if len(tools) > MAX_TOOLS:
        raise ConstraintError(f"{len(tools)} tools", hint=f"At most {MAX_TOOLS} are allowed")
    names = [tool.name for tool in tools]
    if len(set(names)) < len(names):
        raise ConstraintError("two tools have one name", hint="Rename one of them")
    final = ""
    if final_schema is not None:
        narrowed = normal_form(final_schema, "final answer", narrow=True)
        final = json_spec(narrowed, is_part=True).source
    offered = tuple(_checked(tool) for tool in tools)
    return ConstraintSpec(
        "calls",
        source=final,
        tools=offered,
        min_calls=min_calls,
        max_calls=max_calls,
        text=text,
    )


def _checked(tool: ToolSchema) -> ToolSchema:
    try:
        parameters = normal_form(tool.parameters, "arguments", narrow=True)
        json_spec(parameters, is_part=True)
    except ConstraintError as wrong:
        raise of_tool(tool, wrong) from None
    return ToolSchema(tool.name, "", parameters)


def of_tool(tool: ToolSchema, wrong: ConstraintError) -> ConstraintError:
    """The same error, with the name of the tool."""
    return ConstraintError(
        f"tool {tool.name}: {wrong.message}",
        pointer=wrong.pointer,
        keyword=wrong.keyword,
        hint=wrong.hint,
    )

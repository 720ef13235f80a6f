"""The JSON Schema of a server's tool as agentrt shows it to models and holds them to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentrt.base.errors import ConstraintError
from agentrt.base.segments import ToolSchema
from agentrt.structured import calls_spec, checked_schema_shape
from agentrt.structured.json_schema.keywords import with_children
from agentrt.tools.schema_arguments import SchemaArguments

UNSHOWN = ("title", "$schema", "$id")
"""Annotations that repeat names or say nothing to a model, which reads each of their tokens."""


def schema_arguments(
    schema: Mapping[str, Any], *, server: str, tool: str, check: bool
) -> SchemaArguments:
    """The arguments of a tool.

    Args:
        schema: The input schema that the server gives.
        server: Name of the server, for messages.
        tool: Name of the tool at the server, for messages.
        check: Whether keywords that cannot be enforced are checked when a call is written.

    Raises:
        ConstraintError: A keyword cannot be enforced (or checked).
    """
    shown = _untitled(dict(schema))
    shown.setdefault("type", "object")
    shown.setdefault("properties", {})
    try:
        held = dict(checked_schema_shape(shown, is_part=True).schema or {}) if check else shown
        calls_spec((ToolSchema("tool", "", held),))
    except ConstraintError as wrong:
        what = wrong.message.removeprefix("tool tool: ")
        instead = "" if check else ", or check=True, which checks it when a call is written"
        raise ConstraintError(
            f"MCP server {server}, tool {tool}: {what}",
            pointer=wrong.pointer,
            keyword=wrong.keyword,
            hint=f"Leave the tool out: without=[{tool!r}]{instead}",
        ) from wrong
    return SchemaArguments(shown, held)


def _untitled(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    kept = {key: one for key, one in schema.items() if key not in UNSHOWN or key == "properties"}
    return with_children(kept, _untitled)

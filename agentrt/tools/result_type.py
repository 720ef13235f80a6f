"""The type of a tool's results, to write and to read them."""

from __future__ import annotations

from typing import Any, get_type_hints

from pydantic import TypeAdapter

from agentrt.tools.spec import ToolSpec


def result_adapter(spec: ToolSpec) -> TypeAdapter[Any] | None:
    """Reader and writer of the results of a tool, of any value if it names no type.

    Returns:
        None for a type that cannot be found, or that has no schema.
    """
    try:
        return TypeAdapter(get_type_hints(spec.fn, include_extras=True).get("return", Any))
    except Exception:
        return None

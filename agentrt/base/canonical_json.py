"""Canonical JSON: compact unless a style is chosen, keys in field order, the same bytes each time.

Tool arguments, tool results and structured outputs are all written here, in prompts and in traces,
so that equal values have equal token ids and share their prefix.
"""

from __future__ import annotations

from typing import Any

from agentrt.base.json_style import JsonStyle, styled_json


def dumps(value: Any, style: JsonStyle = "compact") -> str:
    """`value` as JSON in a style: keys in their own order, text not escaped to ASCII.

    Pydantic converts models, dataclasses, dates, paths and enums.

    Raises:
        pydantic_core.PydanticSerializationError: The value has no JSON form.
        ValueError: The value holds a NaN or an infinity, which JSON cannot carry.
    """
    from pydantic_core import to_jsonable_python  # takes 25 ms, not needed to define a program

    plain = to_jsonable_python(value, inf_nan_mode="constants")
    return styled_json(plain, style)


def content(value: Any, style: JsonStyle = "compact") -> str:
    """`value` as the content of a message: text unchanged, anything else as JSON in a style."""
    return value if isinstance(value, str) else dumps(value, style)

"""Canonical JSON: compact, keys in field order, the same bytes each time.

Tool arguments, tool results and structured outputs are all written here, in prompts and in traces,
so that equal values have equal token ids and share their prefix.
"""

from __future__ import annotations

import json
from typing import Any


def dumps(value: Any) -> str:
    """`value` as compact JSON: no spaces, keys in their own order, text not escaped to ASCII.

    Pydantic converts models, dataclasses, dates, paths and enums.

    Raises:
        pydantic_core.PydanticSerializationError: The value has no JSON form.
        ValueError: The value holds a NaN or an infinity, which JSON cannot carry.
    """
    from pydantic_core import to_jsonable_python  # takes 25 ms, not needed to define a program

    plain = to_jsonable_python(value, inf_nan_mode="constants")
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def content(value: Any) -> str:
    """`value` as the content of a message: text unchanged, anything else as compact JSON."""
    return value if isinstance(value, str) else dumps(value)

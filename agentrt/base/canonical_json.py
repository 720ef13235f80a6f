"""The one serializer: compact, in field order, the same bytes each time.

Tool arguments, tool results and structured outputs all go through here, in prompts as in traces, so
that equal values have equal token ids and share their prefix.
"""

from __future__ import annotations

import json
from typing import Any


def dumps(value: Any) -> str:
    """`value` as compact JSON: no spaces, keys as they are ordered, text not escaped to ASCII.

    Models, dataclasses, dates, paths and enums become what pydantic makes of them.

    Raises:
        pydantic_core.PydanticSerializationError: For a value that has no JSON form.
        ValueError: For NaN and infinities, which JSON cannot carry.
    """
    from pydantic_core import to_jsonable_python  # 25 ms that writing a program does not need

    plain = to_jsonable_python(value, inf_nan_mode="constants")
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def content(value: Any) -> str:
    """`value` as the content of a message: text as it is, anything else as compact JSON."""
    return value if isinstance(value, str) else dumps(value)

"""Form of each JSON Schema keyword's value, checked so that later steps may rely on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentrt.structured.json_schema.keywords import (
    COUNTS,
    SCHEMA_KEYWORDS,
    SCHEMA_LIST_KEYWORDS,
    SCHEMA_MAP_KEYWORDS,
    refusal,
)

_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_type(value: Any) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(name, str) and name in _TYPES for name in names)


def _is_names_by_name(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_names(names) for names in value.values())


_FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "$ref": (_is_text, "text"),
    "dependentRequired": (_is_names_by_name, "lists of names by name"),
    "enum": (lambda value: isinstance(value, list) and bool(value), "a list of values"),
    "exclusiveMaximum": (_is_number, "a number"),
    "exclusiveMinimum": (_is_number, "a number"),
    "format": (_is_text, "text"),
    "$id": (_is_text, "text"),
    "$schema": (_is_text, "text"),
    "$anchor": (_is_text, "text"),
    "maximum": (_is_number, "a number"),
    "minimum": (_is_number, "a number"),
    "multipleOf": (lambda value: _is_number(value) and value > 0, "a number above 0"),
    "pattern": (_is_text, "text"),
    "required": (_is_names, "a list of names"),
    "type": (_is_type, f"one or more of {', '.join(sorted(_TYPES))}"),
    "uniqueItems": (lambda value: isinstance(value, bool), "true or false"),
    **dict.fromkeys(COUNTS, (_is_count, "a count, 0 or more")),
}


def check_forms(schema: dict[str, Any], pointer: str) -> None:
    """Refuse a keyword of this schema with a malformed value.

    Raises:
        ConstraintError: A value is malformed; names its JSON pointer.
    """
    for keyword, value in schema.items():
        form = _FORMS.get(keyword)
        wanted = None if form is None or form[0](value) else form[1]
        if keyword in SCHEMA_MAP_KEYWORDS and not isinstance(value, dict):
            wanted = "schemas by name"
        elif keyword in SCHEMA_LIST_KEYWORDS:
            wanted = _wanted_of_list(keyword, value)
        elif keyword in SCHEMA_KEYWORDS and not isinstance(value, dict | bool):
            wanted = "a schema"
        if wanted is not None:
            hint = "See the JSON Schema specification, draft 2020-12"
            raise refusal(pointer, keyword, f"must be {wanted}", hint)


def _wanted_of_list(keyword: str, value: Any) -> str | None:
    if keyword == "items" and isinstance(value, dict | bool):
        return None
    return None if isinstance(value, list) and value else "a list of schemas"

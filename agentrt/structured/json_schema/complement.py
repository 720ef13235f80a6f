"""Complement of a schema: the schema of all that it refuses, if it can be expressed exactly.

Source: each keyword of JSON Schema 2020-12 constrains one type and lets all others pass, so its
complement is that type with the opposite keyword. Keywords without an opposite (multiples, large
patterns, unbounded items) give None, never an approximation.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from agentrt.structured.json_schema.disjoint import exclude_each_other
from agentrt.structured.json_schema.keywords import (
    KEYWORDS,
    TYPES,
    UNREAD,
    alone,
    is_same,
    resolve,
)
from agentrt.structured.json_schema.regex_text import escape_regex
from agentrt.structured.json_schema.text_language import ANY_TEXT, TooComplex, matching
from agentrt.structured.json_schema.value_context import ANY_VALUE, ValueContext

MAX_DEPTH = 12

_OPPOSITE = {
    "minimum": ("number", "exclusiveMaximum", 0),
    "exclusiveMinimum": ("number", "maximum", 0),
    "maximum": ("number", "exclusiveMinimum", 0),
    "exclusiveMaximum": ("number", "minimum", 0),
    "minLength": ("string", "maxLength", -1),
    "maxLength": ("string", "minLength", 1),
    "minItems": ("array", "maxItems", -1),
    "maxItems": ("array", "minItems", 1),
    "minProperties": ("object", "maxProperties", -1),
    "maxProperties": ("object", "minProperties", 1),
}
"""Type of each keyword, its opposite, and the shift of the bound."""

_TYPE_OF = {
    **{keyword: kind for keyword, (kind, _, _) in _OPPOSITE.items()},
    **dict.fromkeys(("pattern", "format"), "string"),
    **dict.fromkeys(("items", "prefixItems", "contains", "uniqueItems"), "array"),
    **dict.fromkeys(("properties", "patternProperties", "additionalProperties"), "object"),
    **dict.fromkeys(("required", "dependentRequired", "propertyNames"), "object"),
    "multipleOf": "number",
}
"""The only type that a keyword is about."""

Parts = list[Any] | None
"""Schemas of which at least one holds; None if the complement cannot be expressed."""


def complement(
    schema: Any, root: Any, depth: int = 0, within: ValueContext = ANY_VALUE
) -> Any | None:
    """A schema that accepts what `schema` refuses; None if it cannot be expressed.

    Args:
        schema: The schema.
        root: The whole schema, for references.
        depth: Number of combinations around it.
        within: Context of the value; the complement is exact for such values.
    """
    if isinstance(schema, bool):
        return not schema
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return None
    parts: list[Any] = []
    for keyword, value in schema.items():
        if keyword in UNREAD or keyword not in KEYWORDS:  # annotations
            continue
        if keyword in _TYPE_OF and _TYPE_OF[keyword] not in within.kinds:
            continue
        found = _of_keyword(keyword, value, schema, root, depth, within)
        if found is None:
            return None
        parts += found
    return any_of(parts)


def any_of(options: Sequence[Any]) -> Any:
    """A schema that accepts any of some options, as short as possible."""
    parts = [option for option in options if option is not False]
    if not parts:
        return False
    if True in parts:
        return True
    return parts[0] if len(parts) == 1 else {"anyOf": parts}


def _of_keyword(
    keyword: str,
    value: Any,
    schema: dict[str, Any],
    root: Any,
    depth: int,
    within: ValueContext,
) -> Parts:
    if keyword in _OPPOSITE and isinstance(value, int | float):
        kind, opposite, moved = _OPPOSITE[keyword]
        bound = value + moved
        return [] if bound < 0 and moved else [{"type": kind, opposite: bound}]
    match keyword:
        case "type":
            return _other_types(value, within.kinds)
        case "const":
            return _other_values([value])
        case "enum":
            return _other_values(value)
        case "pattern":
            return _other_matches(value)
        case "required":
            return [{"type": "object", "properties": {name: False}} for name in value]
        case "properties":
            known = {name: within.fields(name) for name in value}
            wanted = {
                name: one
                for name, one in value.items()
                if False not in known[name] and not _is_among(one, known[name], root)
            }
            return _other_properties(wanted, root, depth)
        case "prefixItems":
            return _other_items(value, root, depth)
        case "items" | "additionalProperties" if value is True or value == {}:
            return []
        case "additionalProperties" if value is False:
            return _other_names(schema, within)
        case "additionalProperties" if "patternProperties" not in schema:
            return _other_fields(schema, root, depth, within)
        case "items" if any(is_same(value, one.get("items")) for one in within.plain):
            return None if any("prefixItems" in one for one in (schema, *within.plain)) else []
        case "items" if value is False:
            fixed = len(schema.get("prefixItems", ()))
            return [{"type": "array", "minItems": fixed + 1}]
        case "items" if "prefixItems" not in schema:
            refused = _each([value], root, depth)
            return refused and [
                {"type": "array", "contains": one} for one in refused if one is not False
            ]
        case "contains":
            return _other_contents(value, schema, root, depth)
        case "minContains" | "maxContains":
            return []  # they count for `contains`
        case "dependentRequired":
            return _other_dependents(value)
        case "not":
            return [value]
        case "allOf":
            return _each(value, root, depth, within)
        case "anyOf":
            return _none_of(value, root, depth, within)
        case "oneOf" if exclude_each_other(value, root):
            return _none_of(value, root, depth, within)
        case "$ref" if isinstance(root, dict):
            meant = resolve(root, value)
            return None if meant is None else _each([meant], root, depth, within)
        case _:
            return None


def _is_among(schema: Any, known: list[Any], root: Any) -> bool:
    """Whether a schema is one of those that hold anyway, by itself or as the target of one."""
    meant = alone(schema, root)
    return any(is_same(meant, alone(one, root)) for one in known)


def _each(schemas: list[Any], root: Any, depth: int, within: ValueContext = ANY_VALUE) -> Parts:
    found = [complement(schema, root, depth + 1, within) for schema in schemas]
    return None if any(part is None for part in found) else found


def _none_of(options: list[Any], root: Any, depth: int, within: ValueContext) -> Parts:
    found = [complement(option, root, depth + 1, within) for option in options]
    if False in found:
        return []
    return None if None in found else [{"allOf": found}]


def _other_types(value: Any, among: frozenset[str]) -> Parts:
    kinds = {value} if isinstance(value, str) else set(value)
    if "integer" in kinds and "number" not in kinds and "number" in among:
        return None  # no keyword for numbers with a fraction
    rest = [kind for kind in TYPES if kind in among - kinds]
    return [{"type": rest[0] if len(rest) == 1 else rest}] if rest else []


def _other_values(values: list[Any]) -> Parts:
    """All values except these strings, numbers, booleans or nulls."""
    texts = [value for value in values if isinstance(value, str)]
    numbers = sorted({v for v in values if isinstance(v, int | float) and not isinstance(v, bool)})
    truths = {value for value in values if isinstance(value, bool)}
    if any(isinstance(value, dict | list) for value in values):
        return None
    parts: list[Any] = [{"type": ["object", "array"]}]
    if None not in values:
        parts.append({"type": "null"})
    if len(truths) < 2:
        parts.append({"enum": [t for t in (False, True) if t not in truths]})
    parts.append({"type": "string", "pattern": f"^(?:{other_texts(texts)})$"})
    bounds = [None, *numbers, None]
    for low, high in itertools.pairwise(bounds):
        between: dict[str, Any] = {"type": "number"}
        if low is not None:
            between["exclusiveMinimum"] = low
        if high is not None:
            between["exclusiveMaximum"] = high
        parts.append(between)
    return parts


def other_texts(texts: Sequence[str]) -> str:
    """A regex of all texts except these."""
    ends = "" in texts
    heads = sorted({text[0] for text in texts if text})
    if not heads:
        return r"(?s:.)+" if ends else r"(?s:.)*"
    inside = "".join(f"\\x{{{ord(head):x}}}" for head in heads)
    cases = [rf"[^{inside}](?s:.)*"]
    for head in heads:
        tails = [text[1:] for text in texts if text.startswith(head)]
        cases.append(f"{escape_regex(head)}(?:{other_texts(tails)})")
    whole = "|".join(cases)
    return whole if ends else f"(?:{whole})?"


def _other_matches(pattern: str) -> Parts:
    try:
        others = ANY_TEXT.without(matching(pattern))
        return [] if others.is_empty else [{"type": "string", "pattern": others.pattern()}]
    except TooComplex:
        return None


def _other_names(schema: dict[str, Any], within: ValueContext) -> Parts:
    """Objects with a field that the schema does not name."""
    names = within.names()
    if names is None or "patternProperties" in schema:
        return None
    named = schema.get("properties", {})
    return [{"type": "object", "required": [name]} for name in names if name not in named]


def _other_properties(wanted: dict[str, Any], root: Any, depth: int) -> Parts:
    refused = _each(list(wanted.values()), root, depth)
    return refused and [
        {"type": "object", "required": [name], "properties": {name: other}}
        for name, other in zip(wanted, refused, strict=True)
        if other is not False
    ]


def _other_fields(schema: dict[str, Any], root: Any, depth: int, within: ValueContext) -> Parts:
    """Objects with another field than the schema names, whose value is not as it wants."""
    names = within.names()
    if names is None:
        return None
    left = [name for name in names if name not in schema.get("properties", {})]
    return _other_properties(dict.fromkeys(left, schema["additionalProperties"]), root, depth)


def _other_items(wanted: list[Any], root: Any, depth: int) -> Parts:
    refused = _each(wanted, root, depth)
    return refused and [
        {"type": "array", "minItems": index + 1, "prefixItems": [True] * index + [other]}
        for index, other in enumerate(refused)
        if other is not False
    ]


def _other_contents(wanted: Any, schema: dict[str, Any], root: Any, depth: int) -> Parts:
    """Arrays of which no item is wanted."""
    if schema.get("minContains", 1) != 1 or "maxContains" in schema:
        return None
    refused = _each([wanted], root, depth)
    return refused and [{"type": "array", "items": refused[0]}]


def _other_dependents(wanted: dict[str, list[str]]) -> Parts:
    return [
        {"type": "object", "required": [name], "properties": {need: False}}
        for name, needs in wanted.items()
        for need in needs
    ]

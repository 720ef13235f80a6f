"""Schemas that must all hold, merged into one; and the values of an enumeration that remain."""

from __future__ import annotations

import math
from typing import Any

from agentrt.structured.json_schema.exact_check import unmet
from agentrt.structured.json_schema.keywords import ANNOTATIONS, DEFINITIONS, without
from agentrt.structured.json_schema.number_range import exact

_IGNORED = ANNOTATIONS | {*DEFINITIONS, "$schema", "$id", "x-guidance"}
_LARGEST = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_SMALLEST = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
_OF_ITEMS = frozenset({"items", "prefixItems"})
_OF_FIELDS = frozenset({"properties", "additionalProperties", "patternProperties"})


def merged(schemas: list[Any]) -> Any | None:
    """One schema that requires what all of them require; False if nothing fits.

    None if their keywords cannot be joined into one schema. Subschemas stay the same objects.
    """
    whole: dict[str, Any] = {}
    for schema in schemas:
        if schema is False:
            return False
        if schema is True:
            continue
        more = without(schema, *_IGNORED)
        if _interfere(whole, more):
            return None
        for keyword, value in more.items():
            if keyword not in whole or whole[keyword] == value:
                whole[keyword] = value
                continue
            joined = _joined(keyword, whole[keyword], value)
            if joined is None or joined is False:
                return joined
            whole[keyword] = joined
    return whole


def _interfere(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether keywords of one schema would change the meaning of those of the other."""
    for group in (_OF_ITEMS, _OF_FIELDS):
        here, there = one.keys() & group, other.keys() & group
        if here and there and here | there != {"properties"}:
            return True
    return False


def _joined(keyword: str, one: Any, other: Any) -> Any | None:
    """The value of a keyword that requires both; None if there is none, False if nothing fits."""
    if keyword in _LARGEST:
        return max(one, other, key=exact)
    if keyword in _SMALLEST:
        return min(one, other, key=exact)
    match keyword:
        case "type":
            return _both_types(_list(one), _list(other)) or False
        case "required":
            return [*one, *(name for name in other if name not in one)]
        case "allOf":
            return [*one, *other]
        case "properties":
            same = one.keys() & other.keys()
            return None if any(one[name] != other[name] for name in same) else {**one, **other}
        case "multipleOf" if isinstance(one, int) and isinstance(other, int):
            return math.lcm(one, other)
        case _:
            return None


def _both_types(one: list[str], other: list[str]) -> list[str]:
    found = [kind for kind in one if kind in other]
    for here, there in ((one, other), (other, one)):
        if "integer" in here and "number" in there and "integer" not in found:
            found.append("integer")
    return found


def values_within(schema: dict[str, Any]) -> list[Any]:
    """The values of `enum` and `const` that fit the rest of a schema."""
    values = schema.get("enum", [schema.get("const")])
    rest = without(schema, "enum")
    return (
        values
        if not rest or (rest == schema and len(rest) == 1)
        else [value for value in values if unmet(rest, value) is None]
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]

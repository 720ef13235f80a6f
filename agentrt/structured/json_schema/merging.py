"""Schemas that must all hold, merged into one; and the values of an enumeration that remain."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from typing import Any

from agentrt.base import canonical_json
from agentrt.structured.json_schema.exact_check import unmet
from agentrt.structured.json_schema.keywords import UNREAD, is_same, without
from agentrt.structured.json_schema.number_range import exact

_LARGEST = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_SMALLEST = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
_OF_ITEMS = frozenset({"items", "prefixItems"})
_OF_FIELDS = frozenset({"properties", "additionalProperties", "patternProperties"})


MAX_CASES = 64
"""Largest number of alternatives that are combined from two lists of them."""

_MISSING = object()


def merged(schemas: list[Any], both: Callable[[Any, Any], Any]) -> Any | None:
    """One schema that requires what all of them require; False if nothing fits.

    None if their keywords cannot be joined into one schema.

    Args:
        schemas: The schemas, of which the subschemas stay the same objects.
        both: A schema that requires what two subschemas require.
    """
    whole: dict[str, Any] = {}
    for schema in schemas:
        if schema is False:
            return False
        if schema is True:
            continue
        more = without(schema, *UNREAD)
        if "patternProperties" in {**whole, **more} and (
            whole.keys() & _OF_FIELDS and more.keys() & _OF_FIELDS
        ):
            return None
        joined = _fields(whole, more, both) | _items(whole, more, both)
        for keyword, value in without(more, *_OF_FIELDS, *_OF_ITEMS).items():
            if keyword not in whole or is_same(whole[keyword], value):
                joined[keyword] = value
                continue
            if keyword == "anyOf" and len(whole[keyword]) * len(value) <= MAX_CASES:
                pairs = itertools.product(whole[keyword], value)
                joined[keyword] = [both(one, other) for one, other in pairs]
                continue
            joined[keyword] = _joined(keyword, whole[keyword], value)
            if joined[keyword] is None or joined[keyword] is False:
                return joined[keyword]
        whole = {**without(whole, *_OF_FIELDS, *_OF_ITEMS), **joined}
    return whole


def _fields(
    one: dict[str, Any], other: dict[str, Any], both: Callable[[Any, Any], Any]
) -> dict[str, Any]:
    """The fields of both schemas: a field that one of them does not name is additional there."""
    if not one.keys() & _OF_FIELDS or not other.keys() & _OF_FIELDS:
        return {k: v for k, v in {**one, **other}.items() if k in _OF_FIELDS}
    others = [schema.get("additionalProperties", True) for schema in (one, other)]
    named = [schema.get("properties", {}) for schema in (one, other)]
    return {
        "properties": {
            name: both(named[0].get(name, others[0]), named[1].get(name, others[1]))
            for name in named[0] | named[1]
        },
        "additionalProperties": both(*others),
    }


def _items(
    one: dict[str, Any], other: dict[str, Any], both: Callable[[Any, Any], Any]
) -> dict[str, Any]:
    """The items of both schemas, place by place."""
    if not one.keys() & _OF_ITEMS or not other.keys() & _OF_ITEMS:
        return {k: v for k, v in {**one, **other}.items() if k in _OF_ITEMS}
    rest = [schema.get("items", True) for schema in (one, other)]
    first = [schema.get("prefixItems", []) for schema in (one, other)]
    places = itertools.zip_longest(*first, fillvalue=_MISSING)
    prefix = [
        both(rest[0] if here is _MISSING else here, rest[1] if there is _MISSING else there)
        for here, there in places
    ]
    return {**({"prefixItems": prefix} if prefix else {}), "items": both(*rest)}


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


def values_within(schema: dict[str, Any]) -> list[Any] | None:
    """The values of `enum` and `const` that fit the rest of a schema; None if it is not known."""
    values: list[Any] = schema.get("enum", [schema.get("const")])
    rest = without(schema, "enum") if "enum" in schema else without(schema, "const")
    if not rest:
        return values
    if '"$ref"' in canonical_json.dumps(rest):
        return None
    try:
        return [value for value in values if unmet(rest, value) is None]
    except re.error:  # a pattern in another dialect
        return None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]

"""Lowering: keywords unknown to the grammar compiler, rewritten in keywords that it knows.

Each rewriting keeps exactly the same instances valid, or leaves the schema as it is, to be refused.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

from agentrt.base.held_place import STAND_IN
from agentrt.structured.json_schema.complement import any_of, complement, other_texts
from agentrt.structured.json_schema.disjoint import (
    context_of,
    exclude_each_other,
    shared_types,
)
from agentrt.structured.json_schema.evaluated import SIMPLE, closed
from agentrt.structured.json_schema.field_names import apart
from agentrt.structured.json_schema.keywords import COUNTS, TYPES, UNREAD, without
from agentrt.structured.json_schema.value_key import key_of_value

MAX_ARRAYS = 2000
"""Maximum number of arrays of distinct items to list one by one."""

MAX_POSITIONS = 16
"""Maximum number of positions of an array to try one by one."""

MAX_OVERLAPS = 400
"""Maximum number of pairs of branches that overlap, in one `oneOf`."""

_MAX_SPAN = 64


def lower(schema: dict[str, Any], root: Any) -> dict[str, Any]:
    """One level of `schema` in simpler keywords if possible.

    Additions go into `allOf`, so that the targets of references stay where they are.

    Args:
        schema: One level; the levels below are lowered by themselves.
        root: The whole schema, for references.
    """
    lowered = schema
    for keyword in SIMPLE:
        if keyword in lowered:
            lowered = closed(lowered, keyword, root)
    for keyword, rewrite in _REWRITES.items():
        if keyword in lowered:
            lowered = rewrite(lowered, root)
    return lowered


def _and(schema: dict[str, Any], *more: Any) -> dict[str, Any]:
    """`schema` and further schemas."""
    return {**schema, "allOf": [*schema.get("allOf", ()), *more]}


def _not(schema: dict[str, Any], root: Any) -> dict[str, Any]:
    """`not`: the remaining fixed values, else the complement."""
    rest = without(schema, "not")
    refused = schema["not"]
    values = listed_values({k: v for k, v in rest.items() if k in ("type", "enum", "const")})
    excluded = listed_values(refused)
    if values is not None and excluded is not None:
        keys = {key_of_value(value) for value in excluded}
        left = [value for value in values if key_of_value(value) not in keys]
        return {**without(rest, "const"), "enum": left} if left else _and(rest, False)
    other = complement(refused, root)
    return schema if other is None else _and(rest, other)


def _cases(schema: dict[str, Any], root: Any) -> dict[str, Any]:
    """`if`: the condition with `then`, or its complement with `else`."""
    rest = without(schema, "if", "then", "else")
    if not schema.keys() & {"then", "else"}:
        return rest
    otherwise = complement(schema["if"], root)
    if otherwise is None:
        return schema
    met = _both(schema["if"], schema.get("then", True))
    unmet = _both(otherwise, schema.get("else", True))
    return _and(rest, {"anyOf": [met, unmet]})


def _both(one: Any, other: Any) -> Any:
    """Two schemas at once: as one, if it only adds bounds to the other."""
    is_plain = isinstance(one, dict) and isinstance(other, dict)
    if is_plain and other.keys() <= {*COUNTS} - one.keys():
        return {**one, **other}
    return {"allOf": [one, other]}


def _dependent_schemas(schema: dict[str, Any], root: Any) -> dict[str, Any]:
    """For each property: it is absent, or the schema holds."""
    cases = [
        {"anyOf": [{"properties": {name: False}}, {"allOf": [{"required": [name]}, wanted]}]}
        for name, wanted in schema["dependentSchemas"].items()
    ]
    return _and(without(schema, "dependentSchemas"), *cases)


def _one_of(schema: dict[str, Any], root: Any) -> dict[str, Any]:
    """`oneOf`: alternatives that exclude each other, or each with the complements of the others."""
    branches, rest = schema["oneOf"], without(schema, "oneOf")
    if not isinstance(branches, list):
        return schema
    if exclude_each_other([{"allOf": [rest, branch]} for branch in branches], root):
        if "anyOf" in schema:
            return _and(rest, {"anyOf": branches})
        return {("anyOf" if k == "oneOf" else k): v for k, v in schema.items()}
    cases = []
    left = MAX_OVERLAPS
    for index, branch in enumerate(branches):
        whole, others = {"allOf": [rest, branch]}, []
        for other in branches[:index] + branches[index + 1 :]:
            kinds = shared_types(whole, {"allOf": [rest, other]}, root)
            if not kinds:
                continue
            left -= 1
            unlike = complement(other, root, within=context_of(whole, root, kinds))
            if left < 0 or unlike is None:
                return schema
            unshared = [kind for kind in TYPES if kind not in kinds]
            others.append(any_of([{"type": unshared}, unlike] if unshared else [unlike]))
        cases.append({"allOf": [branch, *others]} if others else branch)
    return _and(rest, {"anyOf": cases})


def _raised(schema: dict[str, Any], root: Any) -> dict[str, Any]:
    """A `oneOf` alone in `allOf` moves up, to be compared with what stands beside it."""
    lonely = [part for part in schema["allOf"] if _stated(part) == {"oneOf"}]
    if "oneOf" in schema or not lonely:
        return schema
    rest = [part for part in schema["allOf"] if part is not lonely[0]]
    kept = {**schema, "allOf": rest} if rest else without(schema, "allOf")
    return {**kept, "oneOf": lonely[0]["oneOf"]}


def _stated(schema: Any) -> set[str]:
    return schema.keys() - UNREAD if isinstance(schema, dict) else set()


def _contains(schema: dict[str, Any], root: Any) -> dict[str, Any]:
    """`contains`: a schema that allows anything counts items; one without bounds has no effect.

    An item that must occur once in a short array occurs at one of its positions.
    """
    fewest, most = schema.get("minContains", 1), schema.get("maxContains")
    rest = without(schema, "contains", "minContains", "maxContains")
    if schema["contains"] in (True, {}):
        bounds: dict[str, Any] = {"minItems": fewest}
        if most is not None:
            bounds["maxItems"] = most
        return _and(rest, bounds)
    if fewest == 0 and most is None:
        return rest
    positions = _most_items(schema)
    if fewest != 1 or most is not None or positions is None:
        return {**schema, "minContains": fewest}
    cases: list[Any] = [
        {"type": "array", "minItems": at + 1, "prefixItems": [True] * at + [schema["contains"]]}
        for at in range(positions)
    ]
    return _and(rest, {"anyOf": [*cases, {"type": [kind for kind in TYPES if kind != "array"]}]})


def _most_items(schema: dict[str, Any]) -> int | None:
    """Maximum number of items of an array; None if there may be many."""
    first = len(schema.get("prefixItems", ()))
    most: Any = first if schema.get("items") is False else MAX_POSITIONS + 1
    if isinstance(schema.get("maxItems"), int):
        most = min(most, schema["maxItems"])
    return most if most <= MAX_POSITIONS else None


def _patterns(schema: dict[str, Any], root: Any) -> dict[str, Any]:
    """Patterns that do not overlap, without those that allow anything as all other names do."""
    kept = schema["patternProperties"]
    if schema.get("additionalProperties", True) in (True, {}):
        kept = {p: v for p, v in kept.items() if v not in (True, {})}
    kept = apart(kept)
    rest = without(schema, "patternProperties")
    return {**rest, "patternProperties": kept} if kept else rest


def _counted_fields(schema: dict[str, Any], root: Any) -> dict[str, Any]:
    """One field at most, or at least one of those named: a case for each name."""
    fewest, most = schema.get("minProperties", 0), schema.get("maxProperties")
    fields, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    is_object = schema.get("type") == "object" and "patternProperties" not in schema
    if not is_object or not 0 < len(fields) <= MAX_POSITIONS or schema.get("required"):
        return schema
    if fewest == 1 and most is None and others is False:
        return _and(without(schema, "minProperties"), {"anyOf": [_has(name) for name in fields]})
    if fewest > 1 or most != 1:
        return schema
    cases: list[Any] = [
        {"properties": {name: value}, **_has(name), "additionalProperties": False}
        for name, value in fields.items()
    ]
    if others is not False:
        pattern = f"^(?:{other_texts(list(fields))})$"
        one = {"minProperties": 1, "maxProperties": 1, "additionalProperties": False}
        cases.append({"patternProperties": {pattern: others}, **one})
    if fewest == 0:
        cases.append({"additionalProperties": False})
    counts = ("minProperties", "maxProperties", "properties", "additionalProperties")
    return _and(without(schema, *counts), {"anyOf": [{"type": "object", **one} for one in cases]})


def _has(name: str) -> dict[str, Any]:
    return {"required": [name]}


def _no_names(schema: dict[str, Any], root: Any) -> dict[str, Any]:
    rest = without(schema, "propertyNames")
    if schema["propertyNames"] is False:
        return _and(rest, {"maxProperties": 0})
    return rest if schema["propertyNames"] in (True, {}) else schema


def _dependent_names(schema: dict[str, Any], root: Any) -> dict[str, Any]:
    wanted = schema["dependentRequired"].items()
    needs = {name: {"required": needed} for name, needed in wanted if needed}
    rest = without(schema, "dependentRequired")
    return _dependent_schemas({**rest, "dependentSchemas": needs}, root) if needs else rest


def _arrays_listed(schema: dict[str, Any], root: Any) -> dict[str, Any]:
    """All arrays of distinct items, if the items are few."""
    known = {"$schema", "type", "items", "prefixItems", "uniqueItems", "minItems", "maxItems"}
    positions = _values_by_position(schema)
    if schema["uniqueItems"] is not True or not schema.keys() <= known or positions is None:
        return schema
    keyed = [_by_key(values) for values in positions]
    arrays: list[list[Any]] = []
    longer: list[dict[Any, Any]] = [{}]
    for values in [*keyed, {}]:
        if schema.get("minItems", 0) <= len(longer[0]):
            arrays += ([*array.values()] for array in longer)
        pairs = itertools.product(longer, values.items())
        longer = [{**array, key: value} for array, (key, value) in pairs if key not in array]
        if len(arrays) + len(longer) > MAX_ARRAYS:
            return schema
        if not longer:
            break
    listed: Any = {"enum": arrays} if arrays else False
    kinds = schema.get("type", TYPES)
    others = [kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind != "array"]
    if "array" not in kinds:
        return without(schema, "uniqueItems")
    if others:
        return {"anyOf": [{"type": others}, listed]}
    return listed if arrays else {"allOf": [False]}


def _by_key(values: list[Any]) -> dict[bytes | None, Any]:
    """Values in order by their keys, of equal ones the first."""
    found: dict[bytes | None, Any] = {}
    for value in values:
        found.setdefault(key_of_value(value), value)
    return found


def _values_by_position(schema: dict[str, Any]) -> list[list[Any]] | None:
    """The values allowed at each position of an array, if they can be listed."""
    first = [listed_values(place) for place in schema.get("prefixItems", ())]
    rest = schema.get("items", True)
    after = [] if rest is False else listed_values(rest)
    if after is None or None in first:
        return None
    most = schema.get("maxItems", len(first) + len(after))
    values = [place for place in first if place is not None]
    return (values + [after] * len(after))[:most]


def listed_values(schema: Any) -> list[Any] | None:
    """The values that a schema allows, if they can be listed."""
    if not isinstance(schema, dict):
        return None
    keys = schema.keys() - {"type"}
    if keys in ({"enum"}, {"const"}):
        values = schema.get("enum", [schema.get("const")])
        if not isinstance(values, list) or any(isinstance(v, dict | list) for v in values):
            return None
        if any(isinstance(value, str) and value[:1] == STAND_IN for value in values):
            return None
        return None if "type" in schema and not _all_typed(values, schema["type"]) else values
    if schema == {"type": "boolean"}:
        return [False, True]
    if schema.get("type") == "integer" and keys == {"minimum", "maximum"}:
        low, high = schema["minimum"], schema["maximum"]
        if isinstance(low, int) and isinstance(high, int) and high - low <= _MAX_SPAN:
            return list(range(low, high + 1))
    return None


def _all_typed(values: list[Any], kind: Any) -> bool:
    kinds = {"string": str, "integer": int, "boolean": bool}
    expected = kinds.get(kind) if isinstance(kind, str) else None
    distinct = len({json.dumps(value) for value in values}) == len(values)
    return expected is not None and distinct and all(type(v) is expected for v in values)


_REWRITES: dict[str, Callable[[dict[str, Any], Any], dict[str, Any]]] = {
    "allOf": _raised,
    "if": _cases,
    "not": _not,
    "oneOf": _one_of,
    "dependentSchemas": _dependent_schemas,
    "dependentRequired": _dependent_names,
    "contains": _contains,
    "patternProperties": _patterns,
    "propertyNames": _no_names,
    "minProperties": _counted_fields,
    "maxProperties": _counted_fields,
    "uniqueItems": _arrays_listed,
}

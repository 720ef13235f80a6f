"""Keywords that the grammar compiler does not know, said in keywords that it does.

Each rewriting keeps exactly the same instances valid, or leaves the schema as it is, to be refused.
"""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

MAX_ARRAYS = 2000
"""Arrays of distinct items that may be listed one by one."""

_MAX_TRIGGERS = 4
_MAX_SPAN = 64
_IN_PLACE = frozenset(
    {"$ref", "allOf", "anyOf", "contains", "dependentSchemas", "if", "not", "oneOf"}
)


def lower(schema: dict[str, Any]) -> dict[str, Any]:
    """`schema`, one level of it, in simpler keywords where that is possible."""
    lowered = schema
    if "unevaluatedProperties" in lowered:
        lowered = _evaluated(lowered, "unevaluatedProperties", "additionalProperties")
    if "unevaluatedItems" in lowered:
        lowered = _evaluated(lowered, "unevaluatedItems", "items")
    if "dependentRequired" in lowered:
        lowered = _dependents_listed(lowered)
    if lowered.get("uniqueItems") is True:
        lowered = _arrays_listed(lowered)
    return lowered


def _evaluated(schema: dict[str, Any], keyword: str, simple: str) -> dict[str, Any]:
    """With nothing else looking at the same instance, unevaluated is what is left over."""
    if schema.keys() & _IN_PLACE:
        return schema
    rest = {k: v for k, v in schema.items() if k != keyword}
    return rest if simple in rest else {**rest, simple: schema[keyword]}


def _dependents_listed(schema: dict[str, Any]) -> dict[str, Any]:
    """One branch for each set of triggers that are there."""
    wanted = schema["dependentRequired"]
    if not isinstance(wanted, dict) or not all(isinstance(v, list) for v in wanted.values()):
        return schema
    triggers = {name: needs for name, needs in wanted.items() if needs}
    rest = {k: v for k, v in schema.items() if k != "dependentRequired"}
    if not triggers:
        return rest
    if len(triggers) > _MAX_TRIGGERS or "anyOf" in rest or "$ref" in rest:
        return schema
    branches = []
    for present in itertools.product((False, True), repeat=len(triggers)):
        there = [name for name, is_there in zip(triggers, present, strict=True) if is_there]
        absent = dict.fromkeys((name for name in triggers if name not in there), False)
        needed = [*rest.get("required", ()), *there, *(n for t in there for n in triggers[t])]
        if absent.keys() & set(needed):
            continue
        branch = {**rest, "properties": {**rest.get("properties", {}), **absent}}
        branches.append({**branch, "required": list(dict.fromkeys(needed))})
    return {"anyOf": branches}


def _arrays_listed(schema: dict[str, Any]) -> dict[str, Any]:
    """All arrays of distinct items, where the items are few."""
    known = {"type", "items", "uniqueItems", "minItems", "maxItems"}
    values = _listed(schema.get("items"))
    if schema.get("type") != "array" or not schema.keys() <= known or values is None:
        return schema
    fewest = int(schema.get("minItems", 0))
    most = min(int(schema.get("maxItems", len(values))), len(values))
    lengths = range(fewest, most + 1)
    if sum(math.perm(len(values), length) for length in lengths) > MAX_ARRAYS:
        return schema
    arrays = [
        list(chosen) for length in lengths for chosen in itertools.permutations(values, length)
    ]
    return {"enum": arrays}


def _listed(schema: Any) -> list[Any] | None:
    """The values that a schema allows, when they can be listed."""
    if not isinstance(schema, dict):
        return None
    keys = schema.keys() - {"type"}
    if keys <= {"enum", "const"} and keys:
        values = schema.get("enum", [schema.get("const")])
        if not isinstance(values, list) or any(isinstance(v, dict | list) for v in values):
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

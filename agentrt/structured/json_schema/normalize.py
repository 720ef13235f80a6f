"""Normal form of a JSON Schema: annotations removed, key order kept, meaning unchanged.

`normalize` never changes which instances are valid. `for_generation` does, on purpose, for schemas
of Python types and tool arguments: a model should write neither an extra property nor a number of a
thousand digits there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from agentrt.base.errors import ConstraintError
from agentrt.structured.json_schema.field_names import any_of_length, without_names
from agentrt.structured.json_schema.formats import PATTERNS, anchored
from agentrt.structured.json_schema.keywords import (
    ANNOTATIONS,
    COUNTS,
    FORMATS,
    KEYWORDS,
    resolve,
    subschemas,
    with_children,
    without,
)
from agentrt.structured.json_schema.lowering import lower
from agentrt.structured.json_schema.references import localize

MAX_INTEGER = 10**18 - 1
"""Largest magnitude of an integer without bounds: 18 digits."""

MAX_NUMBER = 1e18
"""Largest magnitude of another number without bounds: `1e999` would be infinite."""

_KNOWN = frozenset(KEYWORDS)
"""All others are annotations, as the standard says."""

_OF_FIELDS = ("properties", "patternProperties", "additionalProperties")
_LENGTHS = frozenset({"minLength", "maxLength"})

_ABOUT = {
    "array": ("uniqueItems", "contains", "minContains", "maxContains", "unevaluatedItems"),
    "object": ("propertyNames", "dependentRequired", "dependentSchemas", "unevaluatedProperties"),
}
"""Keywords about one type that no grammar enforces by itself."""

_NOT_GENERATED_IN = frozenset({"allOf", "not", "if"})


def normalize(schema: Any) -> Any:
    """`schema` without annotations and without keywords that have no effect.

    Raises:
        ConstraintError: References are nested too deeply.
    """
    try:
        local = localize(schema)
        said = _KNOWN | _names_in_references(local)
        return _walk(local, lambda here: _plain({k: here[k] for k in here if k in said}, local))
    except RecursionError:
        raise ConstraintError(
            "schema refers to itself through too many references", hint="Use fewer definitions"
        ) from None


def _names_in_references(schema: Any) -> set[str]:
    """Names on the way to the targets of references, which must stay where they are."""
    refs = (here.get("$ref") for _, here, _ in subschemas(schema) if isinstance(here, dict))
    parts = (ref.split("/") for ref in refs if isinstance(ref, str))
    return {part.replace("~1", "/").replace("~0", "~") for path in parts for part in path}


def for_generation(schema: Any) -> Any:
    """`schema` narrowed to what a model should write.

    Objects with named properties are closed unless they state otherwise, integers without bounds
    have at most 18 digits, other numbers 18 before the point and no exponent. Fields with defaults
    stay optional, as in pydantic.
    """
    return _walk(normalize(schema), _narrow, skip=_NOT_GENERATED_IN)


def _walk(
    schema: Any,
    change: Callable[[dict[str, Any]], dict[str, Any]],
    skip: frozenset[str] = frozenset(),
) -> Any:
    if not isinstance(schema, dict):
        return schema
    return with_children(change(schema), lambda child: _walk(child, change, skip), skip)


def _plain(schema: dict[str, Any], root: Any) -> dict[str, Any]:
    kept = {k: _count(k, v) for k, v in schema.items() if k not in ANNOTATIONS}
    kept = without(kept, *_about_other_types(kept))
    if kept.get("uniqueItems") is False or kept.get("maxItems") in (0, 1):
        kept.pop("uniqueItems", None)
    kept = lower(kept, root)
    if "contains" not in kept:
        kept = without(kept, "minContains", "maxContains")
    if "if" not in kept:
        kept = without(kept, "then", "else")
    if "format" in kept:
        kept = _without_format(kept)
    if "propertyNames" in kept:
        kept = _without_names(kept, root)
    return _with_fields_together(kept) if "patternProperties" in kept else kept


def _with_fields_together(schema: dict[str, Any]) -> dict[str, Any]:
    """The keywords of fields side by side: the compiler reads those behind `allOf` apart."""
    ordered: dict[str, Any] = {}
    for keyword in schema:
        for name in _OF_FIELDS if keyword in _OF_FIELDS else (keyword,):
            if name in schema:
                ordered[name] = schema[name]
    return ordered


def _about_other_types(schema: dict[str, Any]) -> set[str]:
    """Keywords about arrays or objects in a schema that allows none."""
    kinds = schema.get("type", ("array", "object"))
    silent = {kind for kind in _ABOUT if kind not in kinds}
    return {keyword for kind in silent for keyword in _ABOUT[kind]}


def _count(keyword: str, value: Any) -> Any:
    """JSON Schema allows 2.0 as a count of 2."""
    whole = isinstance(value, float) and value.is_integer()
    return int(value) if whole and keyword in COUNTS else value


def _without_format(schema: dict[str, Any]) -> dict[str, Any]:
    """A format as its pattern, if we have one; others are annotations, as the standard says."""
    name = schema["format"]
    rest = without(schema, "format")
    if name not in PATTERNS:
        return schema if name in FORMATS else rest
    pattern = anchored(PATTERNS[name])
    if rest.get("pattern", pattern) == pattern:
        return {**rest, "pattern": pattern}
    return {**rest, "allOf": [*rest.get("allOf", ()), {"pattern": pattern}]}


def _without_names(schema: dict[str, Any], root: Any) -> dict[str, Any]:
    """`propertyNames` as properties or patternProperties, if they are equivalent."""
    names = _branch(schema["propertyNames"], root) if isinstance(root, dict) else {}
    stated = names.keys() - ANNOTATIONS - {"type"}
    if schema.keys() & {"properties", "patternProperties"}:
        return without_names(schema, root)
    rest = without(schema, "propertyNames", "additionalProperties")
    value = schema.get("additionalProperties", True)
    if value is not False and stated and (stated == {"pattern"} or stated <= _LENGTHS):
        pattern = names.get("pattern") or any_of_length(names)
        return {**rest, "patternProperties": {pattern: value}, "additionalProperties": False}
    fixed = _fixed_values(names, root) if stated <= {"enum", "const"} else []
    if not fixed:
        return without_names(schema, root)
    ordered = [n for n in names.get("enum", [names.get("const")]) if n in fixed]
    return {**rest, "properties": dict.fromkeys(ordered, value), "additionalProperties": False}


def _narrow(schema: dict[str, Any]) -> dict[str, Any]:
    narrowed = dict(schema)
    if "properties" in schema and not schema.keys() & {"additionalProperties", "patternProperties"}:
        narrowed["additionalProperties"] = False
    largest = {"integer": MAX_INTEGER, "number": MAX_NUMBER}.get(str(schema.get("type")))
    if largest is not None and not schema.keys() & {"enum", "const"}:
        if not schema.keys() & {"minimum", "exclusiveMinimum"}:
            narrowed["minimum"] = -_beyond(schema, largest, "maximum", "exclusiveMaximum")
        if not schema.keys() & {"maximum", "exclusiveMaximum"}:
            narrowed["maximum"] = _beyond(schema, largest, "minimum", "exclusiveMinimum")
    return narrowed


def _beyond(schema: dict[str, Any], largest: float, *keywords: str) -> float:
    """A magnitude that leaves room beyond the other end."""
    stated = max((abs(schema[k]) for k in keywords if k in schema), default=0)
    if stated < largest:
        return largest
    return stated * 10 if isinstance(stated, int) else min(stated * 10, sys.float_info.max)


def _branch(option: Any, root: dict[str, Any]) -> dict[str, Any]:
    for _ in range(8):
        if isinstance(option, dict) and isinstance(option.get("$ref"), str) and len(option) == 1:
            option = resolve(root, option["$ref"])
    return option if isinstance(option, dict) else {}


def _fixed_values(schema: Any, root: dict[str, Any]) -> set[str]:
    """The strings that a schema allows if it allows nothing else, else none."""
    here = _branch(schema, root)
    values = [here["const"]] if "const" in here else here.get("enum", [])
    if isinstance(values, list) and all(isinstance(value, str) for value in values):
        return set(values)
    return set()

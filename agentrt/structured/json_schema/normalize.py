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
from agentrt.structured.json_schema.formats import PATTERNS, SAYS_NOTHING, anchored
from agentrt.structured.json_schema.keywords import (
    ANNOTATIONS,
    COUNTS,
    resolve,
    with_children,
    without,
)
from agentrt.structured.json_schema.lowering import lower
from agentrt.structured.json_schema.references import localize

MAX_INTEGER = 10**18 - 1
"""Largest magnitude of an integer without bounds: 18 digits."""

MAX_NUMBER = 1e18
"""Largest magnitude of another number without bounds: `1e999` would be infinite."""

_NOT_GENERATED_IN = frozenset({"allOf", "not", "if"})


def normalize(schema: Any) -> Any:
    """`schema` without annotations and without keywords that have no effect.

    Raises:
        ConstraintError: References are nested too deeply.
    """
    try:
        local = localize(schema)
        return _walk(local, lambda here: _plain(here, local))
    except RecursionError:
        raise ConstraintError(
            "schema refers to itself through too many references", hint="Use fewer definitions"
        ) from None


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
    if kept.get("uniqueItems") is False or kept.get("maxItems") in (0, 1):
        kept.pop("uniqueItems", None)
    kept = lower(kept, root)
    if "contains" not in kept:
        kept = without(kept, "minContains", "maxContains")
    if "if" not in kept:
        kept = without(kept, "then", "else")
    if "oneOf" in kept and "anyOf" not in kept and _has_distinct_tags(kept["oneOf"], root):
        kept = {("anyOf" if k == "oneOf" else k): v for k, v in kept.items()}
    if "format" in kept:
        kept = _without_format(kept)
    if "propertyNames" in kept:
        kept = _without_names(kept, root)
    return kept


def _count(keyword: str, value: Any) -> Any:
    """JSON Schema allows 2.0 as a count of 2."""
    whole = isinstance(value, float) and value.is_integer()
    return int(value) if whole and keyword in COUNTS else value


def _without_format(schema: dict[str, Any]) -> dict[str, Any]:
    """A format as its pattern, if we have one."""
    name = schema["format"]
    rest = without(schema, "format")
    if name in SAYS_NOTHING:
        return rest
    if name not in PATTERNS:
        return schema
    pattern = anchored(PATTERNS[name])
    if rest.get("pattern", pattern) == pattern:
        return {**rest, "pattern": pattern}
    return {**rest, "allOf": [*rest.get("allOf", ()), {"pattern": pattern}]}


def _without_names(schema: dict[str, Any], root: Any) -> dict[str, Any]:
    """`propertyNames` as properties or patternProperties, if they are equivalent."""
    names = _branch(schema["propertyNames"], root) if isinstance(root, dict) else {}
    if schema.keys() & {"properties", "patternProperties"}:
        return schema
    rest = without(schema, "propertyNames", "additionalProperties")
    value = schema.get("additionalProperties", True)
    stated = names.keys() - ANNOTATIONS - {"type"}
    if stated <= {"enum", "const"} and (fixed := _fixed_values(names, root)):
        ordered = [n for n in names.get("enum", [names.get("const")]) if n in fixed]
        return {**rest, "properties": dict.fromkeys(ordered, value), "additionalProperties": False}
    pattern = names.get("pattern")
    if stated == {"format"} and names["format"] in PATTERNS:
        pattern = anchored(PATTERNS[names["format"]])
    elif stated and stated <= {"minLength", "maxLength"}:
        most = names.get("maxLength", "")
        pattern = f"^(?s:.){{{names.get('minLength', 0)},{most}}}$"
    elif stated != {"pattern"}:
        return schema
    return {**rest, "patternProperties": {pattern: value}, "additionalProperties": False}


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


def _has_distinct_tags(options: Any, root: Any) -> bool:
    """Whether a required property with fixed values distinguishes all branches of a `oneOf`."""
    if not isinstance(options, list) or not options or not isinstance(root, dict):
        return False
    tags = [_tags(_branch(option, root), root) for option in options]
    for name in set(tags[0]).intersection(*tags):
        values = [tag[name] for tag in tags]
        if len(set().union(*values)) == sum(map(len, values)):
            return True
    return False


def _tags(branch: dict[str, Any], root: dict[str, Any]) -> dict[str, set[str]]:
    """The fixed values of each required property that has some."""
    properties = branch.get("properties")
    if branch.get("type") != "object" or not isinstance(properties, dict):
        return {}
    fixed = {name: _fixed_values(properties.get(name), root) for name in branch.get("required", ())}
    return {name: values for name, values in fixed.items() if values}


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

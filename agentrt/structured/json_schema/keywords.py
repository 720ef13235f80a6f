"""JSON Schema keywords by their values and by whether they can be enforced."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from agentrt.base.errors import ConstraintError

SCHEMA_KEYWORDS = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""Keywords with one schema (`items` may hold a list of them)."""

SCHEMA_LIST_KEYWORDS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
"""Keywords with a list of schemas."""

SCHEMA_MAP_KEYWORDS = frozenset(
    {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
)
"""Keywords with schemas by name."""

TYPES = ("null", "boolean", "object", "array", "string", "number")
"""The types of values; integers are numbers."""

DEFINITIONS = ("$defs", "definitions")
"""Keywords with schemas used by reference."""

COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
"""Keywords with a count."""

ANNOTATIONS = frozenset(
    {
        "$comment",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "default",
        "deprecated",
        "description",
        "discriminator",
        "example",
        "examples",
        "readOnly",
        "title",
        "writeOnly",
    }
)
"""Keywords without effect on the validity of instances."""

UNREAD = ANNOTATIONS | {*DEFINITIONS, "$schema", "$id", "x-guidance"}
"""Keywords that say nothing about a schema's own instances: annotations, names and places."""

REFUSED: dict[str, str] = {
    "$dynamicRef": "use $ref",
    "$recursiveRef": "use $ref",
    "contains": "leave out minItems, maxItems and prefixItems, or let maxItems be 16 at most",
    "dependencies": "write the allowed combinations as anyOf",
    "dependentRequired": "write the allowed combinations as anyOf",
    "dependentSchemas": "write the allowed combinations as anyOf",
    "else": "write the cases as anyOf",
    "if": "write the cases as anyOf",
    "maxContains": "describe the items with items and prefixItems",
    "minContains": "describe the items with items and prefixItems",
    "not": "say what is allowed: enum, pattern, or anyOf of the other cases",
    "propertyNames": "use patternProperties with additionalProperties: false",
    "then": "write the cases as anyOf",
    "unevaluatedItems": "use items",
    "unevaluatedProperties": "use additionalProperties",
    "uniqueItems": "ask for a list and drop what repeats, or enumerate the choices",
}
"""Keywords that cannot be enforced token by token, with what to use instead."""

KEYWORDS = frozenset(
    {
        *(SCHEMA_KEYWORDS | SCHEMA_LIST_KEYWORDS | SCHEMA_MAP_KEYWORDS | REFUSED.keys() | UNREAD),
        *("type", "enum", "const", "pattern", "format", "required", "multipleOf", *COUNTS),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("$ref", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"),
    }
)
"""All keywords that any draft defines."""

FORMATS = frozenset(
    {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"}
)
"""Formats that are enforced."""


def children(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Direct subschemas, each with its JSON pointer below `schema`."""
    for keyword, value in schema.items():
        if keyword in SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
            for name, child in value.items():
                yield f"/{escape(keyword)}/{escape(name)}", child
        elif keyword in SCHEMA_LIST_KEYWORDS and isinstance(value, list):
            for index, child in enumerate(value):
                yield f"/{keyword}/{index}", child
        elif keyword in SCHEMA_KEYWORDS:
            yield f"/{keyword}", value


def subschemas(schema: Any) -> Iterator[tuple[str, Any, int]]:
    """A schema and all below it in reading order, each with its JSON pointer and its depth."""
    todo: list[tuple[str, Any, int]] = [("", schema, 0)]
    while todo:
        pointer, here, depth = todo.pop()
        yield pointer, here, depth
        if isinstance(here, dict):
            below = [(pointer + path, child, depth + 1) for path, child in children(here)]
            todo += reversed(below)


def with_children(
    schema: dict[str, Any], change: Callable[[Any], Any], skip: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """`schema` with each direct subschema changed, but for those under the keywords of `skip`."""
    changed = dict(schema)
    for keyword, value in schema.items():
        if keyword in skip:
            continue
        if keyword in SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
            changed[keyword] = {name: change(child) for name, child in value.items()}
        elif keyword in SCHEMA_LIST_KEYWORDS and isinstance(value, list):
            changed[keyword] = [change(child) for child in value]
        elif keyword in SCHEMA_KEYWORDS:
            changed[keyword] = change(value)
    return changed


def without(schema: dict[str, Any], *keywords: str) -> dict[str, Any]:
    """`schema` without these keywords."""
    return {keyword: value for keyword, value in schema.items() if keyword not in keywords}


def refusal(pointer: str, keyword: str, problem: str, hint: str) -> ConstraintError:
    """The error of one keyword of the schema at `pointer`."""
    where = f"{pointer}/{keyword}"
    return ConstraintError(f"{where}: {problem}", pointer=where, keyword=keyword, hint=hint)


def escape(name: str) -> str:
    """`name` as one part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def alone(schema: Any, root: Any) -> Any:
    """The target of a schema that is a reference and states nothing else, or the schema."""
    if not isinstance(schema, dict) or without(schema, *ANNOTATIONS).keys() != {"$ref"}:
        return schema
    return resolve(root, schema["$ref"]) if isinstance(root, dict) else schema


def is_same(one: Any, other: Any) -> bool:
    """Whether two schemas state the same; in Python true equals 1, in a schema it does not."""
    return bool(one == other) and _text(one) == _text(other)


_text = json.JSONEncoder(sort_keys=True).encode


def resolve(root: dict[str, Any], ref: str) -> Any | None:
    """The target of the local reference `#/...`; None if there is none."""
    if ref == "#":
        return root
    if not ref.startswith("#/"):
        return None
    here: Any = root
    for part in ref[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(here, dict) and name in here:
            here = here[name]
        elif isinstance(here, list) and name.isdigit() and int(name) < len(here):
            here = here[int(name)]
        else:
            return None
    return here


def reaching(root: Any, is_sought: Callable[[dict[str, Any]], bool]) -> set[int]:
    """Ids of the subschemas that are sought or lead to one, through references too.

    Args:
        root: A schema whose references are local.
        is_sought: Whether a subschema is sought.

    Example:
        >>> schema = {"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"const": 1}}}
        >>> len(reaching(schema, lambda here: "const" in here))  # itself, a and b
        3
    """
    above: dict[int, list[int]] = {}
    todo: list[int] = []
    for _, here, _ in subschemas(root):
        if not isinstance(here, dict):
            continue
        below = [child for _, child in children(here)]
        if isinstance(here.get("$ref"), str):
            below.append(resolve(root, here["$ref"]))
        for child in below:
            above.setdefault(id(child), []).append(id(here))
        if is_sought(here):
            todo.append(id(here))
    found: set[int] = set()
    while todo:
        here_id = todo.pop()
        if here_id not in found:
            found.add(here_id)
            todo += above.get(here_id, ())
    return found

"""The alternatives of a schema: each a list of plain schemas that must all hold."""

from __future__ import annotations

import itertools
from typing import Any

from agentrt.structured.json_schema.keywords import TYPES, UNREAD, resolve, without

MAX_ALTERNATIVES = 64
_MAX_DEPTH = 12
_COMBINED = ("$ref", "allOf", "anyOf", "oneOf")

Alternative = list[dict[str, Any]]


class TooManyAlternatives(Exception):
    """A schema has more alternatives than are looked at, or refers to itself."""


def alternatives(schema: Any, root: Any, depth: int = 0) -> list[Alternative]:
    """The alternatives of a schema; branches that no type fits are left out.

    Args:
        schema: The schema.
        root: The whole schema, for references.
        depth: Number of combinations around it.

    Raises:
        TooManyAlternatives: There are more than 64.
    """
    if not isinstance(schema, dict):
        return [] if schema is False else [[]]
    if depth > _MAX_DEPTH:
        raise TooManyAlternatives
    plain = without(schema, *_COMBINED, *UNREAD)
    found: list[Alternative] = [[plain]] if plain else [[]]
    parts = [[part] for part in schema.get("allOf", ())]
    if "$ref" in schema:
        parts.append([resolve(root, schema["$ref"])])
    parts += [schema[keyword] for keyword in ("anyOf", "oneOf") if keyword in schema]
    for options in parts:
        each = [alt for option in options for alt in alternatives(option, root, depth + 1)]
        pairs = itertools.product(found, each)
        found = [one + other for one, other in pairs if types_of(one + other)]
        if len(found) > MAX_ALTERNATIVES:
            raise TooManyAlternatives
    return found


def types_of(alternative: Alternative) -> set[str]:
    """The types of the values that fit all of some plain schemas; integers as "integer"."""
    found = {*TYPES, "integer"}
    for schema in alternative:
        kinds = schema.get("type")
        if kinds is not None:
            named = {kinds} if isinstance(kinds, str) else set(kinds)
            found &= named | ({"integer"} if "number" in named else set())
    return found


def child_items(alternative: Alternative, index: int) -> list[Any]:
    """The schemas that an item must fit, as far as plain schemas say."""
    found: list[Any] = []
    for schema in alternative:
        first = schema.get("prefixItems", ())
        if index < len(first):
            found.append(first[index])
        elif "items" in schema:
            found.append(schema["items"])
    return found

"""A JSON Schema within the subset that strict structured outputs take.

Hosted APIs refuse a schema beyond their subset: each object is closed and requires all of its
properties, and many keywords are unknown. What the subset leaves out is named, for it has to be
checked in the answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentrt.base.record import record

Json = dict[str, Any]

BOUNDS = frozenset(
    {
        *("minLength", "maxLength", "pattern", "format"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minItems", "maxItems"),
    }
)
"""Keywords that some of these APIs take and others refuse."""

WIDEST_INTEGER = 10**18 - 1
"""End of the range to which the grammar holds an integer without bounds of its own."""

_RANGE = frozenset({"minimum", "maximum"})
_KEPT = frozenset({"description", "type", "enum", "const", "$ref", "anyOf", "items", "$defs"})
_OF_OBJECTS = frozenset({"properties", "required", "additionalProperties"})
_NOTES = frozenset(
    {"title", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"}
)
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


@record
class StrictSchema:
    """A schema in the strict subset.

    Attributes:
        schema: The schema. A value that fits it, and what was left out, fits the original one once
            the members that are null for absent are left out.
        dropped: Keywords that were left out, and have to be checked.
        absent: Names of properties that are required here and were not; null stands for absence.
    """

    schema: Json
    dropped: tuple[str, ...]
    absent: frozenset[str]


class _Beyond(Exception):
    """A schema has no form in the subset, not even a wider one."""


def strict_schema(schema: Json, *, bounds: bool) -> StrictSchema | None:
    """The schema in the strict subset; None if it has no form there, such as an open object.

    Args:
        schema: The schema.
        bounds: Whether lengths, ranges and patterns are kept.
    """
    rewriting = _Rewriting(bounds)
    try:
        found = rewriting.schema(schema)
        if rewriting.absent & rewriting.nullable:  # null would have two meanings for one name
            rewriting = _Rewriting(bounds, gives_all=True)
            found = rewriting.schema(schema)
    except _Beyond:
        return None
    return StrictSchema(found, tuple(sorted(rewriting.dropped)), frozenset(rewriting.absent))


@dataclass(slots=True)
class _Rewriting:
    """The rewriting of one schema.

    Attributes:
        bounds: Whether bounds are kept.
        gives_all: Whether optional properties have to be given, without null for absence.
        dropped: Keywords that were left out.
        absent: Properties that null makes absent.
        nullable: Properties for which null is a value.
    """

    bounds: bool
    gives_all: bool = False
    dropped: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    nullable: set[str] = field(default_factory=set)

    def schema(self, given: Any) -> Json:
        """One schema, and all within it."""
        if not isinstance(given, Mapping) or not given.keys() - _NOTES:
            raise _Beyond
        here = {key: value for key, value in given.items() if key not in _NOTES}
        if "$ref" in here:
            self.dropped |= here.keys() - {"$ref", "$defs", "description"}
            return {"$ref": here["$ref"]} | self._definitions(here)
        if "oneOf" in here and "anyOf" not in here:
            here["anyOf"] = here.pop("oneOf")
            self.dropped.add("oneOf")
        new = {key: here[key] for key in ("description", "type") if key in here}
        options = [here["const"]] if "const" in here else here.get("enum")
        if options is not None:
            return new | self._options(options) | self._definitions(here)
        if "anyOf" in here:
            self.dropped |= here.keys() - {"anyOf", "$defs", "description"}
            branches = [self.schema(one) for one in here["anyOf"]]
            new.pop("type", None)
            return new | {"anyOf": branches} | self._definitions(here)
        kinds = _kinds(here)
        if not kinds:
            raise _Beyond
        if "object" in kinds:
            new |= self._object(here)
        if "array" in kinds:
            new |= self._array(here)
        for key in here.keys() - _KEPT - _OF_OBJECTS - {"prefixItems"}:
            if key in _RANGE and abs(here[key]) == WIDEST_INTEGER:
                continue
            if key in BOUNDS and self.bounds:
                new[key] = here[key]
            elif not key.startswith("x-"):
                self.dropped.add(key)
        return new | self._definitions(here)

    def _definitions(self, here: Json) -> Json:
        named = here.get("$defs")
        return {"$defs": {name: self.schema(one) for name, one in named.items()}} if named else {}

    def _object(self, here: Json) -> Json:
        properties = here.get("properties", {})
        if here.get("additionalProperties") is not False:
            raise _Beyond
        required = set(here.get("required", ()))
        found: Json = {}
        for name, given in properties.items():
            takes_null = _takes_null(given)
            one = self.schema(given)
            if takes_null:
                self.nullable.add(name)
            elif name not in required and not self.gives_all:
                self.absent.add(name)
                one = {"anyOf": [one, {"type": "null"}]}
            found[name] = one
        if required - properties.keys():
            raise _Beyond
        return {"properties": found, "required": list(found), "additionalProperties": False}

    def _array(self, here: Json) -> Json:
        first = here.get("prefixItems", ())
        rest = here.get("items", not first)
        if not first:
            return {"items": self.schema(rest)}
        self.dropped.add("prefixItems")
        distinct = {json.dumps(one): one for one in (*first, *([rest] if rest else []))}
        items = [self.schema(one) for one in distinct.values()]
        return {"items": items[0] if len(items) == 1 else {"anyOf": items}}

    def _options(self, options: Iterable[Any]) -> Json:
        """Exactly these values: an `enum` of plain ones, a closed schema for each other one."""
        options = list(options)
        plain = [one for one in options if type(one) in _TYPES]
        if not plain and not options:
            raise _Beyond
        branches: list[Json] = []
        if plain:
            kinds = list(dict.fromkeys(_TYPES[type(one)] for one in plain))
            branches.append({"type": kinds[0] if len(kinds) == 1 else kinds, "enum": plain})
        branches += [self._exactly(one) for one in options if type(one) not in _TYPES]
        return branches[0] if len(branches) == 1 else {"anyOf": branches}

    def _exactly(self, value: Any) -> Json:
        if isinstance(value, Mapping):
            properties = {name: self._options([one]) for name, one in value.items()}
            self.nullable |= {name for name, one in value.items() if one is None}
            return {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            }
        if not value:
            raise _Beyond
        self.dropped.add("const")
        return {"type": "array", "items": self._options(value)}


def _kinds(schema: Json) -> list[str]:
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else list(kinds)


def _takes_null(schema: Any) -> bool:
    """Whether a schema takes null, as far as it says so itself; a reference may."""
    if not isinstance(schema, Mapping):
        return True
    options = [schema["const"]] if "const" in schema else schema.get("enum", ())
    if "null" in _kinds(dict(schema)) or None in options or "$ref" in schema:
        return True
    return any(_takes_null(one) for one in (*schema.get("anyOf", ()), *schema.get("oneOf", ())))

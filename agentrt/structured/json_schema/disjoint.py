"""Proof that no value fits two schemas, for a `oneOf` whose branches exclude each other.

Each type that both allow needs a proof of its own. What is not proved may still be true.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agentrt.structured.json_schema.field_names import of_field, texts_of
from agentrt.structured.json_schema.keywords import TYPES, UNREAD, is_same, resolve
from agentrt.structured.json_schema.text_language import ANY_TEXT, TooComplex
from agentrt.structured.json_schema.value_context import ValueContext
from agentrt.structured.json_schema.value_key import key_of_value

MAX_DEPTH = 8
MAX_PAIRS = 2_000
"""Pairs of schemas that are compared for one `oneOf`."""

_LEAST = ("minLength", "minItems", "minProperties", "minimum")
_MOST = ("maxLength", "maxItems", "maxProperties", "maximum")
_TYPE_OF_BOUND = dict(zip(_LEAST, ("string", "array", "object", "number"), strict=True))


def exclude_each_other(options: list[Any], root: Any) -> bool:
    """Whether no value fits two of the options, by proof."""
    proof = _Proof(root)
    pairs = itertools.combinations(options, 2)
    return all(proof.are_disjoint(one, other) for one, other in pairs)


def shared_types(one: Any, other: Any, root: Any) -> frozenset[str]:
    """Types of values that may fit both of two schemas; no others do, by proof."""
    return _Proof(root).shared_types(one, other)


def context_of(schema: Any, root: Any, kinds: frozenset[str]) -> ValueContext:
    """Context of a value of some types that fits a schema."""
    return ValueContext(tuple(_Proof(root)._parts(schema).plain), kinds)


@dataclass(slots=True)
class _Parts:
    """The parts of a schema that must all hold.

    Attributes:
        plain: Schemas without references and combinations.
        unions: Lists of which at least one schema must hold.
    """

    plain: list[dict[str, Any]] = field(default_factory=list)
    unions: list[list[Any]] = field(default_factory=list)
    is_empty: bool = False


@dataclass(slots=True)
class _Proof:
    root: Any
    pairs: int = 0

    def are_disjoint(self, one: Any, other: Any, depth: int = 0) -> bool:
        self.pairs += 1
        if depth > MAX_DEPTH or self.pairs > MAX_PAIRS:
            return False
        here, there = self._parts(one), self._parts(other)
        if here.is_empty or there.is_empty:
            return True
        common = _types(here) & _types(there)
        if all(self._without(kind, here, there, depth) for kind in common):
            return True
        if _is_excluded(there, here) or _is_excluded(here, there):
            return True
        for parts, against in ((here, other), (there, one)):
            for options in parts.unions:
                if all(self.are_disjoint(option, against, depth + 1) for option in options):
                    return True
        return False

    def shared_types(self, one: Any, other: Any) -> frozenset[str]:
        """See the function of this name."""
        if self.are_disjoint(one, other):
            return frozenset()
        here, there = self._parts(one), self._parts(other)
        common = _types(here) & _types(there)
        return frozenset(kind for kind in common if not self._without(kind, here, there, 0))

    def _parts(self, schema: Any) -> _Parts:
        found, todo = _Parts(), [schema]
        for here in todo:  # grows as parts are met
            if len(todo) > MAX_PAIRS:
                break
            if here is False:
                found.is_empty = True
            if not isinstance(here, dict):
                continue
            found.plain.append(here)
            if isinstance(here.get("$ref"), str) and isinstance(self.root, dict):
                todo.append(resolve(self.root, here["$ref"]))
            todo += here.get("allOf", ())
            found.unions += [here[k] for k in ("anyOf", "oneOf") if k in here]
        return found

    def _without(self, kind: str, here: _Parts, there: _Parts, depth: int) -> bool:
        """Whether no value of a type fits both."""
        if _bounds_cross(kind, here, there) or _bounds_cross(kind, there, here):
            return True
        values = _values(here, kind), _values(there, kind)
        if set() in values:
            return True
        if values[0] is not None and values[1] is not None:
            return not values[0] & values[1]
        match kind:
            case "string":
                return _share_no_text(here, there)
            case "object":
                needed = dict.fromkeys((*_required(here), *_required(there)))
                return any(self._no_field(name, here, there, depth) for name in needed)
            case "array":
                least = max(_bound(parts, "minItems", max, 0) for parts in (here, there))
                return least > 0 and self._no_pair(_first(here), _first(there), depth)
            case _:
                return False

    def _no_field(self, name: str, here: _Parts, there: _Parts, depth: int) -> bool:
        return self._no_pair(_field(here, name), _field(there, name), depth)

    def _no_pair(self, some: list[Any], others: list[Any], depth: int) -> bool:
        if False in some or False in others:
            return True
        pairs = itertools.product(some, others)
        return any(self.are_disjoint(one, other, depth + 1) for one, other in pairs)


def _types(parts: _Parts) -> set[str]:
    found = set(TYPES)
    for schema in parts.plain:
        kinds = schema.get("type", TYPES)
        named = {kinds} if isinstance(kinds, str) else set(kinds)
        found &= named | ({"number"} if "integer" in named else set())
    return found


def _values(parts: _Parts, kind: str) -> set[bytes | None] | None:
    """The keys of the values of a type, if they are listed."""
    listed: set[bytes | None] | None = None
    for schema in parts.plain:
        if "const" in schema or "enum" in schema:
            values = [schema["const"]] if "const" in schema else schema["enum"]
            keys = {key_of_value(value) for value in values if _type_of(value) == kind}
            listed = keys if listed is None else listed & keys
    return listed


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    names = {dict: "object", list: "array", str: "string", type(None): "null"}
    return names.get(type(value), "number")


def _bound(parts: _Parts, keyword: str, pick: Any, default: Any) -> Any:
    return pick((s[keyword] for s in parts.plain if keyword in s), default=default)


def _bounds_cross(kind: str, here: _Parts, there: _Parts) -> bool:
    """Whether the least that one allows is more than the most that the other allows."""
    for least, most in zip(_LEAST, _MOST, strict=True):
        if _TYPE_OF_BOUND[least] == kind:
            low, high = _bound(here, least, max, None), _bound(there, most, min, None)
            if kind == "object":
                low = max(low or 0, len({*_required(here)}))
            return low is not None and high is not None and bool(low > high)
    return False


def _share_no_text(here: _Parts, there: _Parts) -> bool:
    """Whether no text has the patterns, formats and values of both, as far as they are small."""
    keywords = {"pattern", "enum", "const", "format"}
    stated = [{k: s[k] for k in s.keys() & keywords} for s in (*here.plain, *there.plain)]
    found = ANY_TEXT
    for one in stated:
        try:
            found = found.both(texts_of(one, None))
        except TooComplex:
            continue
    return found.is_empty


def _required(parts: _Parts) -> Iterator[str]:
    for schema in parts.plain:
        yield from schema.get("required", ())


def _field(parts: _Parts, name: str) -> list[Any]:
    """Schemas that a field must fit."""
    return [one for schema in parts.plain for one in of_field(schema, name) or [True]]


def _is_excluded(parts: _Parts, by: _Parts) -> bool:
    """Whether a `not` refuses all values of some parts."""
    return any("not" in schema and _all_fit(parts, schema["not"]) for schema in by.plain)


def _all_fit(parts: _Parts, wanted: Any) -> bool:
    """Whether all values of some parts fit a schema, by what the parts state literally."""
    if not isinstance(wanted, dict):
        return wanted is True
    for keyword, value in wanted.items():
        match keyword:
            case "type":
                fits = _types(parts) <= ({value} if isinstance(value, str) else set(value))
            case "required":
                fits = {*value} <= {*_required(parts)}
            case "properties":
                fits = all(
                    one in (True, {}) or any(is_same(one, held) for held in _field(parts, name))
                    for name, one in value.items()
                )
            case "additionalProperties":
                fits = value in (True, {})
            case _:
                fits = keyword in UNREAD
        if not fits:
            return False
    return True


def _first(parts: _Parts) -> list[Any]:
    """Schemas that the first item must fit."""
    return [s["prefixItems"][0] if s.get("prefixItems") else s.get("items", True)
            for s in parts.plain]  # fmt: skip

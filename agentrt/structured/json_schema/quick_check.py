"""A quick exact check of values, compiled to closures for schemas of the common keywords.

It only ever says that a value fits. What it does not say goes to the complete validator, and so
does any schema with another keyword.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from decimal import Decimal
from typing import Any

from agentrt.structured.json_schema.keywords import ANNOTATIONS, DEFINITIONS, resolve

Check = Callable[[Any], bool]

_UNCHECKED = ANNOTATIONS | {*DEFINITIONS, "format", "pattern"}
"""Keywords that the complete validator passes over, too: the grammar alone decides on patterns."""
_READ_TOGETHER = frozenset({"properties", "additionalProperties", "prefixItems", "items"})


class _Unknown(Exception):
    """The schema has a keyword that is not checked here."""


def quick_check(schema: Any, decimal_of: Callable[[Any], Decimal]) -> Check | None:
    """A function that is true for values that fit; None if the schema has other keywords.

    Args:
        schema: The schema, of draft 2020-12.
        decimal_of: The exact value of a number as it was written.
    """
    try:
        return _Compiler(schema, decimal_of).check(schema)
    except (_Unknown, RecursionError):
        return None


class _Compiler:
    def __init__(self, root: Any, decimal_of: Callable[[Any], Decimal]) -> None:
        self._root = root
        self._decimal_of = decimal_of
        self._made: dict[int, list[Check]] = {}

    def check(self, schema: Any) -> Check:
        if isinstance(schema, bool):
            return lambda value: schema
        if not isinstance(schema, dict):
            raise _Unknown
        if id(schema) in self._made:  # inside of itself, by reference
            return _all_of(self._made[id(schema)])
        checks = self._made[id(schema)] = []
        for keyword, value in schema.items():
            if keyword not in _UNCHECKED | _READ_TOGETHER:
                checks.append(self._of_keyword(keyword, value))
        if schema.keys() & {"properties", "additionalProperties"}:
            checks.append(self._fields(schema))
        if schema.keys() & {"prefixItems", "items"}:
            checks.append(self._items(schema))
        return checks[0] if len(checks) == 1 else _all_of(checks)

    def _of_keyword(self, keyword: str, wanted: Any) -> Check:
        match keyword:
            case "type":
                tests = [_TYPES[kind] for kind in ([wanted] if isinstance(wanted, str) else wanted)]
                return tests[0] if len(tests) == 1 else lambda value: any(t(value) for t in tests)
            case "required":
                names = frozenset(wanted)
                return lambda value: not isinstance(value, dict) or names <= value.keys()
            case "enum" | "const":
                return _one_of([wanted] if keyword == "const" else wanted)
            case "$ref":
                return self.check(self._target(wanted))
            case "allOf" | "anyOf" | "oneOf":
                return _combined(keyword, [self.check(option) for option in wanted])
        if keyword in _SIZES:
            kind, fits = _SIZES[keyword]
            return lambda value: not isinstance(value, kind) or fits(len(value), wanted)
        if keyword in _ENDS:
            return self._end(_ENDS[keyword], wanted)
        raise _Unknown

    def _target(self, ref: Any) -> Any:
        found = resolve(self._root, ref) if isinstance(ref, str) else None
        if found is None:
            raise _Unknown
        return found

    def _end(self, fits: Callable[[Any, Any], bool], end: Any) -> Check:
        exact_end = Decimal(repr(end)) if isinstance(end, float) else Decimal(end)

        def check(value: Any) -> bool:
            if not _is_number(value):
                return True
            if isinstance(value, int) and isinstance(end, int):
                return fits(value, end)
            return fits(self._decimal_of(value), exact_end) and (
                isinstance(value, int) or fits(value, end)
            )

        return check

    def _fields(self, schema: dict[str, Any]) -> Check:
        named = {name: self.check(one) for name, one in schema.get("properties", {}).items()}
        other = self.check(schema.get("additionalProperties", True))

        def check(value: Any) -> bool:
            if not isinstance(value, dict):
                return True
            for name, one in value.items():  # noqa: SIM110
                if not named.get(name, other)(one):
                    return False
            return True

        return check

    def _items(self, schema: dict[str, Any]) -> Check:
        first = [self.check(one) for one in schema.get("prefixItems", ())]
        rest = self.check(schema.get("items", True))

        def check(value: Any) -> bool:
            if not isinstance(value, list):
                return True
            for index, one in enumerate(value):
                if not (first[index] if index < len(first) else rest)(one):
                    return False
            return True

        return check


def _all_of(checks: list[Check]) -> Check:
    """A loop, for a generator costs more than most checks; `checks` may still grow."""

    def check(value: Any) -> bool:
        for one in checks:  # noqa: SIM110
            if not one(value):
                return False
        return True

    return check


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


def _one_of(values: Any) -> Check:
    """Equality of JSON: true is not 1, and 1.0 is."""
    if not isinstance(values, list) or any(isinstance(one, dict | list) for one in values):
        raise _Unknown
    known = {(isinstance(one, bool), one) for one in values}
    return lambda value: (
        not isinstance(value, dict | list) and (isinstance(value, bool), value) in known
    )


def _combined(keyword: str, checks: list[Check]) -> Check:
    match keyword:
        case "allOf":
            return _all_of(checks)
        case "anyOf":
            return lambda value: any(check(value) for check in checks)
        case _:
            return lambda value: sum(check(value) for check in checks) == 1


_TYPES: dict[str, Check] = {
    "array": lambda value: isinstance(value, list),
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "null": lambda value: value is None,
    "number": _is_number,
    "object": lambda value: isinstance(value, dict),
    "string": lambda value: isinstance(value, str),
}
_SIZES: dict[str, tuple[type[Sized], Callable[[int, Any], bool]]] = {
    f"{end}{what}": (kind, fits)
    for what, kind in (("Length", str), ("Items", list), ("Properties", dict))
    for end, fits in (("min", int.__ge__), ("max", int.__le__))
}
_ENDS: dict[str, Callable[[Any, Any], bool]] = {
    "minimum": lambda number, end: bool(number >= end),
    "maximum": lambda number, end: bool(number <= end),
    "exclusiveMinimum": lambda number, end: bool(number > end),
    "exclusiveMaximum": lambda number, end: bool(number < end),
}

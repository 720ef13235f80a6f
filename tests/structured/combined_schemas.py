"""Random small schemas that combine keywords, with instances near what they state."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import jsonschema

SCALARS = (None, True, False, 0, 1, 1.0, 2, 1.5, "", "a", "ab", "b")
PLAIN: tuple[Any, ...] = (*SCALARS, 3, "ba", [], {}, {"a": 1})
TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
PATTERNS = ("^a", "b$", "^[ab]*$", "^(a|ab)$", "")
NAMES = ({"enum": ["a"]}, {"pattern": "^a"}, {"maxLength": 1}, {"const": "b"})

Piece = Callable[[Random, dict[str, Any], int], None]


def combined_schema(dice: Random) -> dict[str, Any]:
    """A schema of a few keywords that meet each other, with definitions if it refers to any."""
    found = _schema(dice, 3)
    whole = found if isinstance(found, dict) else {"allOf": [found]}
    if "$defs" not in json.dumps(whole):
        return whole
    named = {"x": _schema(dice, 0), "y": _schema(dice, 1)}
    plain = {k: {"enum": [1, "a"]} if "$ref" in json.dumps(v) else v for k, v in named.items()}
    return {**whole, "$defs": plain}


def instances_near(dice: Random, schema: Any, count: int) -> list[Any]:
    """Small values, and some built of those that a schema states."""
    stated = list(_stated(schema))
    flat = [*SCALARS, *stated, *stated, *stated]
    found = [*PLAIN, *stated]
    for _ in range(count):
        if dice.random() < 0.55:
            items = [_item(dice, flat) for _ in range(dice.randint(1, 3))]
            if len(items) > 1 and dice.random() < 0.3:
                items[1] = items[0]
            found.append(items)
        else:
            names = dice.sample("abc", dice.randint(1, 2))
            found.append({name: _item(dice, flat) for name in names})
    return list({json.dumps(value): value for value in found}.values())


def are_equal(one: Any, other: Any) -> bool:
    """Equality of JSON: true is not 1, 1.0 is."""
    match one, other:
        case (bool(), _) | (_, bool()):
            return one is other
        case dict(), dict():
            return one.keys() == other.keys() and all(are_equal(one[k], other[k]) for k in one)
        case list(), list():
            return len(one) == len(other) and all(map(are_equal, one, other))
    return bool(one == other)


def repeats(value: Any) -> bool:
    """Whether an array with equal items is anywhere in a value."""
    if isinstance(value, list):
        pairs = itertools.combinations(value, 2)
        return any(are_equal(*pair) for pair in pairs) or any(map(repeats, value))
    return isinstance(value, dict) and any(map(repeats, value.values()))


def _distinct(validator: Any, wanted: bool, value: Any, schema: Any) -> Iterator[Any]:
    pairs = itertools.combinations(value, 2) if wanted and isinstance(value, list) else ()
    if any(are_equal(*pair) for pair in pairs):
        yield jsonschema.ValidationError("items are equal")


EXACT = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"uniqueItems": _distinct})
"""The judge: the library sorts items by Python's order, by which true may part 1 from 1."""


def _stated(schema: Any) -> Iterator[Any]:
    if isinstance(schema, dict):
        yield from schema.get("enum", ())
        yield from (schema[key] for key in ("const",) if key in schema)
    if isinstance(schema, dict | list):
        for below in schema.values() if isinstance(schema, dict) else schema:
            yield from _stated(below)


def _item(dice: Random, flat: list[Any]) -> Any:
    value, drawn = dice.choice(flat), dice.random()
    if drawn < 0.1:
        return [value]
    if drawn < 0.25:
        return {name: dice.choice(flat) for name in dice.sample("ab", dice.randint(1, 2))}
    return value


def _value(dice: Random, depth: int = 1) -> Any:
    drawn = dice.random()
    if depth and drawn < 0.2:
        return [_value(dice, depth - 1) for _ in range(dice.randint(0, 2))]
    if depth and drawn < 0.4:
        return {name: _value(dice, depth - 1) for name in dice.sample("ab", dice.randint(0, 2))}
    return dice.choice(SCALARS)


def _schema(dice: Random, depth: int) -> Any:
    if dice.random() < 0.05:
        return dice.choice((True, False, {}))
    if depth > 0 and dice.random() < 0.15:
        return {"$ref": f"#/$defs/{dice.choice('xy')}"}
    here: dict[str, Any] = {}
    for _ in range(dice.choice((1, 1, 2, 2, 3))):
        dice.choice(_PIECES if depth > 0 else _FLAT)(dice, here, depth - 1)
    return here


def _type(dice: Random, here: dict[str, Any], depth: int) -> None:
    here["type"] = dice.choice(TYPES) if dice.random() < 0.7 else sorted(dice.sample(TYPES, 2))


def _listed(dice: Random, here: dict[str, Any], depth: int) -> None:
    if dice.random() < 0.5:
        here["const"] = _value(dice)
    else:
        here["enum"] = [_value(dice) for _ in range(dice.randint(1, 4))]


def _number(dice: Random, here: dict[str, Any], depth: int) -> None:
    if dice.random() < 0.3:
        here["multipleOf"] = dice.choice((1, 2, 0.5, 3))
    else:
        ends = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
        here[dice.choice(ends)] = dice.choice((0, 1, 2, 1.5, -1))


def _text(dice: Random, here: dict[str, Any], depth: int) -> None:
    if dice.random() < 0.5:
        here["pattern"] = dice.choice(PATTERNS)
    else:
        here[dice.choice(("minLength", "maxLength"))] = dice.randint(0, 2)


def _needs(dice: Random, here: dict[str, Any], depth: int) -> None:
    if dice.random() < 0.3:
        here[dice.choice(("minProperties", "maxProperties"))] = dice.randint(0, 2)
    elif dice.random() < 0.4:
        here["dependentRequired"] = {"a": ["b"]}
    else:
        here["required"] = dice.sample("ab", dice.randint(1, 2))


def _items(dice: Random, here: dict[str, Any], depth: int) -> None:
    if dice.random() < 0.6:
        here["type"] = "array"
    if dice.random() < 0.4:
        here["prefixItems"] = [_schema(dice, depth) for _ in range(dice.randint(1, 2))]
    if dice.random() < 0.6:
        here["items"] = _schema(dice, depth) if dice.random() < 0.7 else False
    if dice.random() < 0.4:
        here[dice.choice(("minItems", "maxItems"))] = dice.randint(0, 3)


def _unique(dice: Random, here: dict[str, Any], depth: int) -> None:
    here["uniqueItems"] = True
    _items(dice, here, depth)


def _contains(dice: Random, here: dict[str, Any], depth: int) -> None:
    here["contains"] = _schema(dice, depth)
    if dice.random() < 0.4:
        here["maxItems"] = dice.randint(1, 3)
    if dice.random() < 0.3:
        here["minContains"] = dice.randint(0, 2)
    if dice.random() < 0.3:
        here["maxContains"] = dice.randint(1, 2)


def _fields(dice: Random, here: dict[str, Any], depth: int) -> None:
    if dice.random() < 0.7:
        named = dice.sample("ab", dice.randint(1, 2))
        here["properties"] = {name: _schema(dice, depth) for name in named}
    else:
        here["patternProperties"] = {dice.choice(PATTERNS[:3]): _schema(dice, depth)}
    if dice.random() < 0.5:
        here["additionalProperties"] = _schema(dice, depth) if dice.random() < 0.4 else False
    if dice.random() < 0.5:
        here["type"] = "object"


def _names(dice: Random, here: dict[str, Any], depth: int) -> None:
    here["propertyNames"] = dice.choice(NAMES)


def _combination(dice: Random, here: dict[str, Any], depth: int) -> None:
    options = [_schema(dice, depth) for _ in range(dice.randint(1, 3))]
    here[dice.choice(("anyOf", "oneOf", "allOf"))] = options


def _condition(dice: Random, here: dict[str, Any], depth: int) -> None:
    match dice.randrange(3):
        case 0:
            here["not"] = _schema(dice, depth)
        case 1:
            here["dependentSchemas"] = {dice.choice("ab"): _schema(dice, depth)}
        case _:
            here |= {key: _schema(dice, depth) for key in ("if", dice.choice(("then", "else")))}


def _unevaluated(dice: Random, here: dict[str, Any], depth: int) -> None:
    keyword = dice.choice(("unevaluatedProperties", "unevaluatedItems"))
    here[keyword] = _schema(dice, depth) if dice.random() < 0.3 else False


_FLAT: tuple[Piece, ...] = (_type, _listed, _number, _text, _needs)
_OF_PARTS: tuple[Piece, ...] = (_items, _items, _unique, _contains, _fields, _fields, _names)
_PIECES: tuple[Piece, ...] = (
    *_FLAT,
    *(_type, _listed, *_OF_PARTS),
    *(_combination, _combination, _combination, _condition, _condition, _unevaluated),
)

"""Arrays of distinct items: where a schema asks for them, and whether their texts show it.

No grammar compares items, so the state of a sequence does (see `distinct_state`): by the texts of
the items if equal items have equal texts, else by their values. Numbers with fractions (1.0 is 1)
and objects with free keys, which come in any order, need the second, which is for endless items
only. Items must not run out before `minItems`. Records that are listed have one text each.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agentrt.base.held_place import STAND_IN
from agentrt.base.json_style import JsonStyle, styled_json
from agentrt.structured.json_schema.alternatives import (
    MAX_ALTERNATIVES,
    Alternative,
    TooManyAlternatives,
    alternatives,
    child_items,
    types_of,
)
from agentrt.structured.json_schema.keywords import (
    REFUSED,
    reaching,
    refusal,
    resolve,
    subschemas,
    with_children,
    without,
)
from agentrt.structured.json_schema.listed_items import (
    LISTING,
    ListedTexts,
    fitting_values,
    have_one_text_each,
    hold_parts,
    is_listed,
    stated_values,
)
from agentrt.structured.json_schema.number_leaf import NUMERIC

KEYWORD = "uniqueItems"
MAX_PLACES = 5_000
_MAX_DEPTH = 16
_NARROWING = LISTING | {"pattern", "format", "maxLength"}
_OF_ANY_FIELDS = frozenset(
    {"type", "properties", "patternProperties", "additionalProperties", "required"}
)
_ENDLESS = float("inf")

_Options = frozenset[frozenset[int]]


def holds_distinct(schema: Any) -> bool:
    """Whether a schema asks for distinct items anywhere."""
    return any(_asks(here) for _, here, _ in subschemas(schema))


def without_distinct(schema: Any) -> Any:
    """A schema with any items."""
    if not isinstance(schema, dict):
        return schema
    return with_children(without(schema, KEYWORD), without_distinct)


def check_distinct(schema: Any) -> None:
    """Refuse a schema whose items cannot be told apart, or may run out.

    Raises:
        ConstraintError: Names the first such array.
    """
    places = DistinctPlaces(schema)
    for place in places.all():
        if place.is_distinct and not places.can_hold(place):
            asking = {id(one) for one in place.plain if _asks(one)}
            at = next(path for path, here, _ in subschemas(schema) if id(here) in asking)
            hint = f"Give check=True; or instead, {REFUSED[KEYWORD]}"
            raise refusal(at, KEYWORD, "equal items may have different texts, or run out", hint)


def _asks(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get(KEYWORD) is True


@dataclass(slots=True, eq=False)
class SchemaPlace:
    """A place in a document, by the schemas that may hold there.

    Attributes:
        plain: Schemas without references and combinations, of all alternatives.
        is_distinct: Whether the items of an array in this place must be distinct.
        is_open: Whether such items are strings of which any beginning goes on in endless ways.
        is_by_value: Whether equal items may have different texts.
        is_endless: Whether there are endless different items.
        listed: The texts of such items, if records or arrays are listed; else None.
    """

    plain: list[dict[str, Any]]
    is_distinct: bool
    is_open: bool = False
    is_by_value: bool = False
    is_endless: bool = False
    listed: ListedTexts | None = None
    _owner: Any = None
    _steps: dict[Any, SchemaPlace | None] = field(default_factory=dict)

    def field(self, key: bytes) -> SchemaPlace | None:
        """The place of a field's value; None if nothing distinct is below.

        Args:
            key: The name, as a JSON string.
        """
        name = json.loads(key)
        if not any(name in schema.get("properties", {}) for schema in self.plain):
            name = None  # outputs may name any number of these
        if name not in self._steps:
            self._steps[name] = self._owner.place(self._values(name))
        return self._steps[name]

    def item(self, index: int) -> SchemaPlace | None:
        """The place of an item; None if nothing distinct is below."""
        index = min(index, max((len(s.get("prefixItems", ())) for s in self.plain), default=0))
        if index not in self._steps:
            found = [one for schema in self.plain for one in child_items([schema], index)]
            self._steps[index] = self._owner.place(found)
        return self._steps[index]

    def below(self) -> Iterator[SchemaPlace]:
        """All places right below."""
        names = {name for schema in self.plain for name in schema.get("properties", {})}
        found = [self.field(json.dumps(name).encode()) for name in sorted(names)]
        found.append(self._owner.place(self._values(None)))
        most = max((len(schema.get("prefixItems", ())) for schema in self.plain), default=0)
        found += [self.item(index) for index in range(most + 1)]
        return (place for place in found if place is not None)

    def _values(self, name: str | None) -> list[Any]:
        """Schemas that may hold for a field; None stands for all that are not named."""
        found: list[Any] = []
        for schema in self.plain:
            found += schema.get("patternProperties", {}).values()
            if name in schema.get("properties", {}):
                found.append(schema["properties"][name])
            else:
                found.append(schema.get("additionalProperties", True))
        return found


class DistinctPlaces:
    """The places of a schema from which an array of distinct items can be reached.

    Args:
        schema: The whole schema, in normal form.
        style: Style of its texts.
    """

    def __init__(self, schema: Any, style: JsonStyle = "compact") -> None:
        self._root = schema
        self._style: JsonStyle = style
        self._reaching = reaching(schema, _asks)
        self._known: dict[tuple[int, ...], SchemaPlace] = {}
        self.root = self.place([schema])

    def place(self, schemas: list[Any]) -> SchemaPlace | None:
        """The place of some schemas; None if nothing distinct is below."""
        kept = {id(one): one for one in schemas if id(one) in self._reaching}
        if not kept:
            return None
        key = tuple(sorted(kept))
        if key not in self._known:
            plain = [one for schema in kept.values() for one in self._plain(schema)]
            distinct = any(map(_asks, plain))
            made = self._known[key] = SchemaPlace(plain, distinct, _owner=self)
            if distinct:
                items = self._items(plain)
                made.is_open = bool(items) and all(map(_is_open, items))
                made.is_by_value = not self._are_told_apart(made)
                made.is_endless = self._is_endless(made)
                made.listed = None if made.is_by_value else self._listed(items)
        return self._known[key]

    def all(self) -> Iterator[SchemaPlace]:
        """All places, as long as they are not too many to look at."""
        todo = [] if self.root is None else [self.root]
        seen = set(map(id, todo))
        for place in todo:  # grows as places are met
            yield place
            for below in place.below():
                if id(below) not in seen and len(todo) < MAX_PLACES:
                    seen.add(id(below))
                    todo.append(below)

    def can_hold(self, place: SchemaPlace) -> bool:
        """Whether items are told apart by text, or by value and endless, and are enough."""
        if place.is_by_value and not place.is_endless:
            return False
        try:
            return all(map(self._has_enough, _arrays(place)))
        except TooManyAlternatives:
            return False

    def _is_endless(self, place: SchemaPlace) -> bool:
        """Whether there are endless different items, as at most a single schema of them states."""
        stated = [one for one in _arrays(place) if one.keys() & {"items", "prefixItems"}]
        if not stated:
            return True
        if len(stated) > 1 or "prefixItems" in stated[0]:
            return False
        return self._count(stated[0]["items"], 0) == _ENDLESS

    def _count(self, schema: Any, depth: int) -> float:
        """A number of different values that a schema has at least."""
        try:
            found = alternatives(schema, self._root) if depth <= _MAX_DEPTH else []
        except TooManyAlternatives:
            return 0
        return max((self._count_of(one, depth) for one in found), default=0)

    def _are_told_apart(self, place: SchemaPlace) -> bool:
        """Whether equal items have equal texts."""
        try:
            return all(map(self._are_plain_items, _arrays(place)))
        except TooManyAlternatives:
            return False

    def _plain(self, schema: Any) -> Iterator[dict[str, Any]]:
        """The schemas that may hold with this one, without references and combinations."""
        todo, seen = [schema], set[int]()
        for here in todo:  # grows as schemas are met
            if not isinstance(here, dict) or id(here) in seen:
                continue
            seen.add(id(here))
            yield here
            if "$ref" in here:
                todo.append(resolve(self._root, here["$ref"]))
            for keyword in ("allOf", "anyOf", "oneOf"):
                todo += here.get(keyword, ())

    def _items(self, plain: list[dict[str, Any]]) -> list[Alternative]:
        """The alternatives of all items; [] if they are too many, or differ by position."""
        arrays = [schema for schema in plain if "array" in types_of([schema])]
        if any("prefixItems" in schema for schema in arrays):
            return []
        items = [schema.get("items", True) for schema in arrays if "$ref" not in schema]
        try:
            return [alt for item in items for alt in alternatives(item, self._root)]
        except TooManyAlternatives:
            return []

    def _listed(self, items: list[Alternative]) -> ListedTexts | None:
        found = [fitting_values(one) for one in items]
        values = [value for one in found for value in one or ()]
        if None in found or not hold_parts(values):
            return None
        texts = {styled_json(value, self._style).encode() for value in values}
        return ListedTexts(tuple(sorted(texts)))

    def _has_enough(self, array: dict[str, Any]) -> bool:
        held, fewest = array.get("minContains", 0), array.get("minItems", 0)
        if held > 1 and self._count(array["contains"], 0) < int(held):
            return False
        if fewest < 2:
            return True
        if "prefixItems" in array:
            return False
        return self._count(array.get("items", True), 0) >= int(fewest)

    def _count_of(self, alternative: Alternative, depth: int) -> float:
        """A number of different values that an alternative has at least."""
        if is_listed(alternative):
            fitting = fitting_values(alternative) or []
            late = any(isinstance(value, str) and value[:1] == STAND_IN for value in fitting)
            return _ENDLESS if late else len({json.dumps(value) for value in fitting})
        kinds, stated = types_of(alternative), {key for one in alternative for key in one}
        if "string" in kinds and not stated & _NARROWING:
            return _ENDLESS
        if "integer" in kinds and not stated & NUMERIC:
            return _ENDLESS
        if "object" in kinds and len(alternative) == 1 and stated <= _OF_ANY_FIELDS:
            values = alternative[0].get("properties", {}).values()
            return max((1, *(self._count(value, depth + 1) for value in values)))
        return 1

    def _are_plain_items(self, array: dict[str, Any]) -> bool:
        if not _asks(array):
            return True
        most = len(array.get("prefixItems", ()))
        items = [child_items([array], at) for at in range(most + 1)]
        return "items" in array and self._show(items, 0, ())

    def _show(self, options: list[list[Any]], depth: int, above: tuple[_Options, ...]) -> bool:
        """Whether equal values have equal texts, if each fits all schemas of any option."""
        here = frozenset(frozenset(map(id, schemas)) for schemas in options)
        if here in above:
            return True
        if depth > _MAX_DEPTH or not all(options):
            return False
        found = [one for some in options for one in alternatives({"allOf": some}, self._root)]
        if len(found) > MAX_ALTERNATIVES:
            raise TooManyAlternatives
        values = [value for one in found if is_listed(one) for value in stated_values(one)]
        others = [one for one in found if not is_listed(one)]
        arrays, objects = (
            [one for one in others if kind in types_of(one)] for kind in ("array", "object")
        )
        if not have_one_text_each(values) or any("number" in types_of(one) for one in others):
            return False
        if hold_parts(values) and (arrays or objects):
            return False
        below = (*above, here)
        return self._arrays_show(arrays, depth + 1, below) and self._objects_show(
            objects, depth + 1, below
        )

    def _arrays_show(
        self, arrays: list[Alternative], depth: int, above: tuple[_Options, ...]
    ) -> bool:
        """The same for arrays: item by item, whichever alternative each of two is of."""
        first = [len(schema.get("prefixItems", ())) for one in arrays for schema in one]
        places = range(max(first, default=0) + 1 if arrays else 0)
        return all(self._show([child_items(one, at) for one in arrays], depth, above)
                   for at in places)  # fmt: skip

    def _objects_show(
        self, objects: list[Alternative], depth: int, above: tuple[_Options, ...]
    ) -> bool:
        """The same for objects: field by field, in one order."""
        fields: list[dict[str, Any]] = []
        for one in objects:
            named = [schema["properties"] for schema in one if schema.get("properties")]
            if len(named) > 1 or not any(map(_is_closed, one)):
                return False
            fields.append(named[0] if named else {})
        orders = {tuple(one) for one in fields}
        if not all(_agree(*pair) for pair in itertools.combinations(orders, 2)):
            return False
        names = {name for one in fields for name in one}
        return all(self._show([[one[name]] for one in fields if name in one], depth, above)
                   for name in sorted(names))  # fmt: skip


def _arrays(place: SchemaPlace) -> list[dict[str, Any]]:
    return [one for one in place.plain if "array" in types_of([one])]


def _is_open(alternative: Alternative) -> bool:
    return types_of(alternative) == {"string"} and not _is_narrow(alternative)


def _is_closed(schema: dict[str, Any]) -> bool:
    return schema.get("additionalProperties") is False and not schema.get("patternProperties")


def _agree(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether the names that two objects share come in one order."""
    return [name for name in one if name in other] == [name for name in other if name in one]


def _is_narrow(alternative: Alternative) -> bool:
    return any(schema.keys() & _NARROWING for schema in alternative)

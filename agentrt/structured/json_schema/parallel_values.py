r"""Places of a grammar at which a listed record meets an open object or array.

A listed record is written as one lexeme, `"{\"a\":1}"`. The lexer takes the longest lexeme and
never goes back, so that beside it no other object could be written beyond their common beginning:
there, a record must be written piece by piece. The parser follows alternatives at once, so that
values meet below them, too: at the same index, or under the same name.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from agentrt.base.record import record
from agentrt.structured.json_schema.keywords import UNREAD, without

MAX_PAIRS = 20_000
"""Pairs of alternatives that are compared; with more, records count as met."""

Rule = str | None
"""The name of a rule; None stands for no value."""


@record
class ListedRecords:
    """Records that are written as one lexeme each, by their first characters."""

    opens: frozenset[str]


@record
class OpenArray:
    """An array by the rules of its items; opaque if they are not known.

    Attributes:
        first: Rules of the first items.
        item: Rule of the others.
    """

    first: tuple[Rule, ...] = ()
    item: Rule = None
    is_opaque: bool = False
    opens: frozenset[str] = frozenset("[")

    def children(self) -> Iterator[Rule]:
        yield from (*self.first, self.item)

    def pairs(self, other: OpenArray) -> Iterator[tuple[Rule, Rule]]:
        """The rules of items that come at the same index."""
        for index in range(max(len(self.first), len(other.first)) + 1):
            yield self._at(index), other._at(index)

    def _at(self, index: int) -> Rule:
        return self.first[index] if index < len(self.first) else self.item


@record
class OpenObject:
    """An object by the rules of its fields; opaque if they are not known.

    Attributes:
        fields: Rules of the named fields.
        other: Rule of the others.
    """

    fields: tuple[tuple[str, Rule], ...] = ()
    other: Rule = None
    is_opaque: bool = False
    opens: frozenset[str] = frozenset("{")

    def children(self) -> Iterator[Rule]:
        yield from (*dict(self.fields).values(), self.other)

    def pairs(self, other: OpenObject) -> Iterator[tuple[Rule, Rule]]:
        """The rules of fields that may have the same name."""
        here, there = dict(self.fields), dict(other.fields)
        for name in here | there:
            yield here.get(name, self.other), there.get(name, other.other)
        yield self.other, other.other


Beginning = ListedRecords | OpenArray | OpenObject
OPAQUE: dict[str, Beginning] = {
    "array": OpenArray(is_opaque=True),
    "object": OpenObject(is_opaque=True),
}


_ANY = ""
"""The rule of values of which nothing is known."""
_CLOSED = frozenset({"type", "properties", "required", "additionalProperties"})


def native_beginnings(schema: dict[str, Any]) -> list[Beginning]:
    """The beginnings of a schema that the compiler writes by itself, piece by piece."""
    stated = without(schema, *UNREAD)
    kinds = stated.get("type", list(OPAQUE))
    is_closed = stated.get("additionalProperties", True) is False and stated.keys() <= _CLOSED
    if kinds == "object" and is_closed:
        return [OpenObject(tuple((name, _ANY) for name in stated.get("properties", ())))]
    return [OPAQUE[kind] for kind in OPAQUE if kind in kinds]


@dataclass(slots=True, eq=False)
class ParallelValues:
    """The beginnings of the values of all rules."""

    _rules: dict[str, list[Beginning | str]] = field(
        default_factory=lambda: {_ANY: [*OPAQUE.values()]}
    )
    _containers: dict[str, Beginning] = field(default_factory=dict)
    _pairs: set[tuple[str, str]] = field(default_factory=set)
    _count: int = 0

    def rule(self, name: str, alternatives: Iterable[str]) -> None:
        """Add a rule by its alternatives: names of rules, or texts of containers."""
        found = [self._containers.get(text, text) for text in alternatives]
        self._rules[name] = found

    def beginning(self, name: str, found: Iterable[Beginning]) -> None:
        """Add a rule by its beginnings."""
        self._rules[name] = list(found)

    def container(self, text: str | None, found: Beginning) -> str | None:
        """The text of an alternative, whose beginning is kept."""
        if text is not None:
            self._containers[text] = found
        return text

    def union(self, *rules: Rule) -> str:
        """The name of a rule of any of some."""
        kept = [rule for rule in rules if rule is not None]
        self._rules.setdefault(" | ".join(kept), [*kept])
        return " | ".join(kept)

    def listing(self, name: str, texts: Iterable[str]) -> None:
        """Add a rule of whole texts."""
        opens = frozenset(text[0] for text in texts) & {"[", "{"}
        self._rules[name] = [ListedRecords(opens)] if opens else []

    def meet(self) -> bool:
        """Whether a text may begin both as a listed record and piece by piece."""
        lists = self._listing()
        if not lists:
            return False
        return any(
            self._clash(one, other, lists)
            for name in self._rules
            for one, other in itertools.combinations(self._beginnings(name), 2)
        )

    def _listing(self) -> set[str]:
        """The rules of listed records, and those above them."""
        above: dict[Rule, list[str]] = {}
        todo: list[str] = []
        for name, beginnings in self._rules.items():
            for one in beginnings:
                if isinstance(one, ListedRecords):
                    todo.append(name)
                    continue
                for below in (one,) if isinstance(one, str) else one.children():
                    above.setdefault(below, []).append(name)
        found: set[str] = set()
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += above.get(name, ())
        return found

    def _beginnings(self, name: str) -> list[Beginning]:
        found: list[Beginning] = []
        todo, seen = [name], {name}
        for here in todo:  # grows as rules are met
            for one in self._rules.get(here, ()):
                if not isinstance(one, str):
                    found.append(one)
                elif one not in seen:
                    seen.add(one)
                    todo.append(one)
        return found

    def _meet_below(self, one: Rule, other: Rule, lists: set[str]) -> bool:
        if one is None or other is None or one == other or (one, other) in self._pairs:
            return False
        self._pairs.add((one, other))
        pairs = itertools.product(self._beginnings(one), self._beginnings(other))
        return any(self._clash(*pair, lists) for pair in pairs)

    def _clash(self, one: Beginning, other: Beginning, lists: set[str]) -> bool:
        self._count += 1
        if self._count > MAX_PAIRS:
            return True
        if one == other or not one.opens & other.opens:
            return False
        match one, other:
            case ListedRecords(), ListedRecords():
                return False
            case (ListedRecords(), _) | (_, ListedRecords()):
                return True
            case OpenArray(), OpenArray():
                pairs = one.pairs(other)
            case OpenObject(), OpenObject():
                pairs = one.pairs(other)
            case _:
                return False
        if one.is_opaque or other.is_opaque:
            below = (*one.children(), *other.children())
            return any(rule in lists for rule in below)
        return any(self._meet_below(*pair, lists) for pair in pairs)

"""Which tool a program calls next, and with what: learned from the calls that were made.

What comes next is looked for by what went before, the last two tools that ended and how, and by how
many calls were made since then. There stands a `CallModel`; it is as probable as it was right
lately.

What is kept for other processes are names and numbers: of programs, tools and arguments, and by
which names and positions an argument was found in what went before. No argument and no result is
kept, but for arguments that the tool's own signature names, or that are true, false or null. Other
constants are known again after one call.

Pure: plain data goes in, plain data comes out.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from agentrt.scheduler.estimates.call_model import (
    LEAST_PROBABILITY,
    LEAST_TRIALS,
    CallGuess,
    CallModel,
    EndedCall,
    Trail,
)
from agentrt.scheduler.estimates.histogram import NOTHING
from agentrt.scheduler.estimates.row import CALLS, EstimateRow

MOST_RULES = 1024
MOST_KEPT_ORIGINS = 4
"""Of one argument."""

MOST_KEPT_CHARACTERS = 4000
MOST_NAME_CHARACTERS = 64

Place = tuple[str, str, int]
"""The program, what went before (`after` spells it), and how many calls were made since."""


class CallPatterns:
    """Rules by place.

    Args:
        rows: What some store has kept.

    Raises:
        ValueError: One is no row of ours.
    """

    def __init__(self, rows: Iterable[EstimateRow] = ()) -> None:
        self._rules: dict[Place, CallModel] = {}
        self._touched: dict[Place, None] = {}
        for row in rows:
            self._put((row.template, row.site, row.depth or 0), _rule_of(row))

    def learn(
        self,
        program: str,
        before: tuple[EndedCall, ...],
        index: int,
        tool: str,
        arguments: Mapping[str, Any],
        public: Collection[str] = (),
    ) -> None:
        """A call was made.

        Args:
            program: That the run started.
            before: The last two calls that had ended, the last one first.
            index: How many calls were made since.
            tool: What was called.
            arguments: With what, as plain data.
            public: Arguments whose values are no secret, as the tool's signature names them.
        """
        place = (program, after(before), index)
        rule = self._rules.pop(place, None) or CallModel()
        rule.learn(tool, arguments, before, public)
        self._put(place, rule)
        self._touched[place] = None

    def guesses(self, program: str, before: tuple[EndedCall, ...]) -> Iterator[CallGuess]:
        """Calls that are likely next, the first one first."""
        index, context = 0, after(before)
        while (rule := self._rules.get((program, context, index))) is not None:
            index += 1
            trials = rule.count - 1
            if trials < LEAST_TRIALS or rule.probability < LEAST_PROBABILITY:
                continue
            arguments = rule.arguments(before)
            if arguments is not None:
                yield CallGuess(rule.tool, arguments, rule.probability, trials)

    def rules(self) -> Iterator[tuple[Place, CallModel]]:
        """All of them, those used last at the end."""
        yield from self._rules.items()

    def rows(self) -> list[EstimateRow]:
        """What may be kept of all rules."""
        return [row for place, rule in self._rules.items() for row in _rows(place, rule)]

    def news(self) -> list[EstimateRow]:
        """The same of those that have learned since this was asked last."""
        touched = [place for place in self._touched if place in self._rules]
        self._touched.clear()
        return [row for place in touched for row in _rows(place, self._rules[place])]

    def _put(self, place: Place, rule: CallModel) -> None:
        if len(self._rules) >= MOST_RULES:
            del self._rules[next(iter(self._rules))]
        self._rules[place] = rule


def after(before: tuple[EndedCall, ...]) -> str:
    """What went before, for people and as a key: `fetch < search failed`, the last one first."""
    return " < ".join(one.tool if one.ok else f"{one.tool} failed" for one in before)


def _rows(place: Place, rule: CallModel) -> Iterator[EstimateRow]:
    """A rule as plain data, or nothing where it may not be kept."""
    sums = {_spelt(trail): weight for trail, weight in _lasting(rule)}
    if sum(map(len, sums)) <= MOST_KEPT_CHARACTERS:
        program, context, index = place
        sums |= {"tried": rule.tried, "hits": rule.hits}
        yield EstimateRow(program, context, index, CALLS, rule.count, sums)


def _lasting(rule: CallModel) -> Iterator[tuple[Trail, float]]:
    """Tools and arguments, and of these the origins that explain most of the calls."""
    for trail, weight in rule.trails.items():
        if any(isinstance(part, str) and len(part) > MOST_NAME_CHARACTERS for part in trail):
            continue
        if len(trail) <= 2:
            yield trail, weight
        if len(trail) == 2:
            found = [
                (origin, explained)
                for origin, explained in rule.origins(trail, 0)
                if 2.0 * explained > weight and (origin[2] != "always" or origin in rule.public)
            ]
            yield from sorted(found, key=lambda one: -one[1])[:MOST_KEPT_ORIGINS]


def _spelt(trail: Trail) -> str:
    return json.dumps(trail, ensure_ascii=False, separators=(",", ":"))


def _rule_of(row: EstimateRow) -> CallModel:
    rule = CallModel()
    rule.count = row.count
    rule.tried, rule.hits = (max(0.0, row.sums.get(name, 0.0)) for name in ("tried", "hits"))
    for name, weight in row.sums.items():
        if name in ("tried", "hits") or weight <= NOTHING:
            continue
        trail = _trail_of(name)
        rule.trails[trail] = weight
        if trail[2:3] == ("always",):
            rule.public.add(trail)
    if not any(len(trail) == 1 for trail in rule.trails):
        raise ValueError(f"what is kept of calls after {row.site!r} names no tool")
    return rule


def _trail_of(name: str) -> Trail:
    """Raises `ValueError` where it is none."""
    try:
        found = json.loads(name)
    except RecursionError:
        found = None
    trail: Trail = tuple(found) if isinstance(found, list) else ()
    head, origin = trail[:2], list(trail[2:])
    if not trail or not all(isinstance(part, str) for part in head):
        raise ValueError(f"{name!r} is no way to an argument")
    if origin[:1] == ["always"] and len(origin) == 2 and isinstance(origin[1], str):
        json.loads(origin[1])
        return trail
    is_place = (
        len(origin) >= 2
        and origin[0] in (0, 1)
        and origin[1] in ("arguments", "result")
        and all(isinstance(part, str | int) for part in origin[2:])
    )
    if origin and not is_place:
        raise ValueError(f"{name!r} is no way to an argument")
    return trail

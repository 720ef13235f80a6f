"""Which tool a program calls next, and with what: learned from the calls that were made.

What comes next is looked for by what went before, the last two tools that ended and how. An
argument comes from somewhere: it is always the same, or it was an argument of one of those two, or
stands in one of their results. Each call leaves of these origins those that explain it, too; a rule
is as probable as it has been right.

Pure: plain data goes in, plain data comes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentrt.fact import fact

LEAST_TRIALS = 2
LEAST_PROBABILITY = 0.5
MOST_RULES = 1024
MOST_ORIGINS = 64
_MOST_DEPTH = 4

Origin = tuple[Any, ...]
"""`("always", value)`, or `(tool, "arguments" | "result", key, ...)`; the last tool is 0."""


@fact
class Called:
    """A call of a tool that has ended.

    Attributes:
        tool: Its name.
        arguments: As plain data, by name.
        result: As plain data; None where it has no such form, or failed.
        ok: Whether it gave a result.
    """

    tool: str
    arguments: Mapping[str, Any]
    result: Any
    ok: bool


@fact
class Guess:
    """A call that is likely next.

    Attributes:
        tool: Its name.
        arguments: By name.
        probability: How often such a guess was right.
        trials: Of how many.
    """

    tool: str
    arguments: dict[str, Any]
    probability: float
    trials: int


class _Rule:
    """What is known of the call that comes at one place."""

    __slots__ = ("hits", "origins", "tool", "trials")

    def __init__(self, tool: str, arguments: Mapping[str, Any], before: tuple[Called, ...]) -> None:
        self.hits = self.trials = 0
        self._begin(tool, arguments, before)

    def _begin(self, tool: str, arguments: Mapping[str, Any], before: tuple[Called, ...]) -> None:
        self.tool = tool
        self.origins: dict[str, list[Origin]] = {
            name: [("always", value), *_origins_of(value, before)]
            for name, value in arguments.items()
        }

    def arguments(self, before: tuple[Called, ...]) -> dict[str, Any] | None:
        """Those of the next call, or None where one of them has no value there."""
        found: dict[str, Any] = {}
        for name, origins in self.origins.items():
            try:
                # What was always the same explains least: anything else that does goes before.
                found[name] = _value_at(origins[-1], before)
            except LookupError:
                return None
        return found

    def learn(self, tool: str, arguments: Mapping[str, Any], before: tuple[Called, ...]) -> None:
        """A call was made here: was it foreseen, and what of the rule is left."""
        self.trials += 1
        self.hits += tool == self.tool and self.arguments(before) == dict(arguments)
        if tool != self.tool or arguments.keys() != self.origins.keys():
            self._begin(tool, arguments, before)
            return
        for name, value in arguments.items():
            left = [origin for origin in self.origins[name] if _explains(origin, value, before)]
            self.origins[name] = left or [("always", value), *_origins_of(value, before)]

    @property
    def probability(self) -> float:
        return self.hits / self.trials if self.trials else 0.0


Place = tuple[str, tuple[tuple[str, bool], ...], int]


class Patterns:
    """Rules by place.

    A place is the program, the last two tools with how they ended, and how many calls were made
    since then.
    """

    def __init__(self) -> None:
        self._rules: dict[Place, _Rule] = {}

    def learn(
        self,
        program: str,
        before: tuple[Called, ...],
        index: int,
        tool: str,
        arguments: Mapping[str, Any],
    ) -> None:
        """A call was made.

        Args:
            program: That the run started.
            before: The last two calls that had ended, the last one first.
            index: How many calls were made since.
            tool: What was called.
            arguments: With what, as plain data.
        """
        place = _place(program, before, index)
        rule = self._rules.get(place)
        if rule is not None:
            rule.learn(tool, arguments, before)
            return
        if len(self._rules) >= MOST_RULES:
            del self._rules[next(iter(self._rules))]
        self._rules[place] = _Rule(tool, arguments, before)

    def guesses(self, program: str, before: tuple[Called, ...]) -> Iterator[Guess]:
        """Calls that are likely next, the first one first."""
        index = 0
        while (rule := self._rules.get(_place(program, before, index))) is not None:
            index += 1
            if rule.trials < LEAST_TRIALS or rule.probability < LEAST_PROBABILITY:
                continue
            arguments = rule.arguments(before)
            if arguments is not None:
                yield Guess(rule.tool, arguments, rule.probability, rule.trials)


def _place(program: str, before: tuple[Called, ...], index: int) -> Place:
    return (program, tuple([(one.tool, one.ok) for one in before]), index)


def _origins_of(value: Any, before: tuple[Called, ...]) -> list[Origin]:
    """Everywhere among what went before that `value` stands."""
    found: list[Origin] = []
    for at, called in enumerate(before):
        for part, data in (("arguments", dict(called.arguments)), ("result", called.result)):
            for path, here in _walk(data, 0):
                if here == value and type(here) is type(value):
                    found.append((at, part, *path))
    return found[:MOST_ORIGINS]


def _walk(data: Any, depth: int) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every value in plain data, with the way to it."""
    yield (), data
    if depth == _MOST_DEPTH:
        return
    parts: Iterator[tuple[Any, Any]] = iter(())
    if isinstance(data, Mapping):
        parts = iter(data.items())
    elif isinstance(data, list):
        parts = iter(list(enumerate(data))[:MOST_ORIGINS])
    for key, part in parts:
        for path, value in _walk(part, depth + 1):
            yield (key, *path), value


def _explains(origin: Origin, value: Any, before: tuple[Called, ...]) -> bool:
    try:
        return bool(_value_at(origin, before) == value)
    except LookupError:
        return False


def _value_at(origin: Origin, before: tuple[Called, ...]) -> Any:
    """Raises `LookupError` where there is none."""
    if origin[0] == "always":
        return origin[1]
    at, part, *path = origin
    called = before[at]
    value: Any = called.arguments if part == "arguments" else called.result
    for key in path:
        if not isinstance(value, Mapping | list):
            raise LookupError(key)
        value = value[key]
    return value

"""Call model: which tool is called next at one point, and where its arguments come from.

An argument has an origin: it is a constant, or an argument of one of the last two calls, or part of
one of their results. An origin gains weight whenever it explains a call, and all weights decay; the
next argument is taken from the origin with the most weight.

Pure: plain data goes in, plain data comes out.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import nlargest
from typing import Any

from agentrt.base.record import record
from agentrt.scheduler.estimates.row import CALLS_DECAY
from agentrt.scheduler.estimates.trail import Trail

MIN_TRIALS = 2
MIN_PROBABILITY = 0.5
MAX_ORIGINS = 64
"""Limit for one argument of one call."""

MAX_TRAILS = 512
MAX_CONSTANT_CHARACTERS = 1000
MIN_WEIGHT = 1e-3
"""Trails with less weight have not been seen for some sixty calls."""

_MAX_DEPTH = 4

Origin = tuple[Any, ...]
"""`("always", JSON)`, or `(call, "arguments" | "result", key, ...)`. The last call is 0; behind the
last two comes that of the program."""


@record
class EndedCall:
    """A tool call that has ended.

    Attributes:
        tool: Name of the tool; "" for the program itself, which has no result yet.
        arguments: Arguments by name, as plain data.
        result: Result as plain data; None if it has no such form, or failed.
        ok: Whether it succeeded.
    """

    tool: str
    arguments: Mapping[str, Any]
    result: Any
    ok: bool


@record
class CallGuess:
    """A likely next call.

    Attributes:
        tool: Name of the tool.
        arguments: Arguments by name.
        probability: Recent share of correct guesses.
        trials: Number of guesses ever.
    """

    tool: str
    arguments: dict[str, Any]
    probability: float
    trials: int


class CallModel:
    """Model of the call at one point.

    A trail is `(tool,)`, `(tool, argument)`, or one of these followed by an origin.

    Attributes:
        count: Calls ever, and ends of the program without one.
        predictable: Decayed weight of the calls that could have been predicted.
        hits: Decayed weight of those that were.
        trails: Decayed weight of each tool, argument and origin.
        public: Trails of constants that may be stored.
    """

    __slots__ = ("count", "hits", "predictable", "public", "trails")

    def __init__(self) -> None:
        self.count = 0
        self.predictable = 0.0
        self.hits = 0.0
        self.trails: dict[Trail, float] = {}
        self.public: set[Trail] = set()

    @property
    def probability(self) -> float:
        """Recent share of correct predictions."""
        return self.hits / self.predictable if self.predictable else 0.0

    @property
    def tool(self) -> str:
        """Tool that is called most here."""
        return str(max(self.origins((), 1), key=lambda found: found[1])[0][0])

    def learn_call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        before: tuple[EndedCall, ...],
        public: Collection[str] = (),
    ) -> None:
        """Learn from a call: whether it was predicted, and which origins explain its arguments.

        Args:
            tool: Tool that was called.
            arguments: Arguments of the call.
            before: The last two calls that had ended, the latest first.
            public: Arguments without secret values, as named in the tool's signature.
        """
        if self.count:
            self.predictable = self.predictable * CALLS_DECAY + 1.0
            self.hits = self.hits * CALLS_DECAY + (
                tool == self.tool and _equal(self.arguments(before), dict(arguments))
            )
        trails = self._fade()
        for trail in self._explaining(tool, arguments, before, public):
            trails[trail] = trails.get(trail, 0.0) + 1.0
        if len(trails) > MAX_TRAILS:  # tools and arguments weigh at least what their origins do
            trails = dict(nlargest(MAX_TRAILS, trails.items(), key=_trail_weight))
        self.trails = trails
        self.public &= trails.keys()

    def learn_end(self) -> bool:
        """Learn that no call came; whether anything is still known of earlier ones."""
        self.predictable = self.predictable * CALLS_DECAY + 1.0
        self.hits *= CALLS_DECAY
        self.trails = self._fade()
        self.public &= self.trails.keys()
        return any(len(trail) == 1 for trail in self.trails)

    def _fade(self) -> dict[Trail, float]:
        """Count one more observation; gives what is left of the weight of earlier ones."""
        self.count += 1
        faded = ((trail, weight * CALLS_DECAY) for trail, weight in self.trails.items())
        return {trail: weight for trail, weight in faded if weight > MIN_WEIGHT}

    def arguments(self, before: tuple[EndedCall, ...]) -> dict[str, Any] | None:
        """Arguments of the next call, or None if one of them is unknown."""
        found: dict[str, Any] = {}
        try:
            for name, origin in self.sources().items():
                found[name] = value_at(origin, before)
        except LookupError:
            return None
        return found

    def sources(self) -> dict[str, Origin]:
        """Origin of each argument of the likeliest call; () if unknown."""
        tool = self.tool
        weight = self.trails[tool,]
        return {
            trail[1]: max(self.origins(trail, 0), key=_origin_weight, default=((), 0.0))[0][2:]
            for trail, given in self.origins((tool,), 1)
            if 2.0 * given > weight
        }

    def origins(self, above: Trail, more: int) -> Iterator[tuple[Trail, float]]:
        """Trails that extend `above` by `more` parts, or by an origin if that is 0."""
        size = len(above)
        for trail, weight in self.trails.items():
            fits = len(trail) == size + more if more else len(trail) > size
            if fits and trail[:size] == above:
                yield trail, weight

    def _explaining(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        before: tuple[EndedCall, ...],
        public: Collection[str],
    ) -> Iterator[Trail]:
        yield (tool,)
        for name, value in arguments.items():
            yield (tool, name)
            text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
            if len(text) <= MAX_CONSTANT_CHARACTERS:
                trail = (tool, name, "always", text)
                if name in public:
                    self.public.add(trail)
                yield trail
            for origin in _origins_of(value, before):
                yield (tool, name, *origin)


def value_at(origin: Origin, before: tuple[EndedCall, ...]) -> Any:
    """Value at an origin.

    Raises:
        LookupError: There is none.
    """
    if not origin:
        raise LookupError("the origin is unknown")
    if origin[0] == "always":
        return json.loads(origin[1])
    at, part, *path = origin
    called = before[at]
    value: Any = called.arguments if part == "arguments" else called.result
    for key in path:
        if not isinstance(value, list if isinstance(key, int) else Mapping):
            raise LookupError(key)
        value = value[key]
    return value


def _origin_weight(found: tuple[Trail, float]) -> tuple[float, bool, int]:
    """Weight of an origin; ties prefer no constant, then the latest call, then its first match."""
    trail, weight = found
    is_constant = trail[2] == "always"
    return (weight, not is_constant, 0 if is_constant else -trail[2])


def _trail_weight(found: tuple[Trail, float]) -> tuple[float, int]:
    return (found[1], -len(found[0]))


def _equal(one: Any, other: Any) -> bool:
    """Whether values are equal and of one type: 1 is not true."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)


def _origins_of(value: Any, before: Iterable[EndedCall]) -> list[Origin]:
    """All origins among earlier calls at which `value` occurs."""
    found: list[Origin] = []
    for at, called in enumerate(before):
        for part, data in (("arguments", dict(called.arguments)), ("result", called.result)):
            for path, here in _walk(data, 0):
                if _equal(here, value):
                    found.append((at, part, *path))
    return found[:MAX_ORIGINS]


def _walk(data: Any, depth: int) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every value in plain data, with its path."""
    yield (), data
    if depth == _MAX_DEPTH:
        return
    parts: Iterator[tuple[Any, Any]] = iter(())
    if isinstance(data, Mapping):
        parts = iter(data.items())
    elif isinstance(data, list):
        parts = iter(list(enumerate(data))[:MAX_ORIGINS])
    for key, part in parts:
        for path, value in _walk(part, depth + 1):
            yield (key, *path), value

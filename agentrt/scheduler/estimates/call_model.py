"""What is known of the call that comes at one place: which tool, and where its arguments are from.

An argument comes from somewhere: it is always the same, or it was an argument of one of the last
two calls, or stands in one of their results. Each such *origin* gains where it explains a call, and
all fade; the one that explained most is where the next argument is looked for.

Pure: plain data goes in, plain data comes out.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import nlargest
from typing import Any

from agentrt.base.record import record
from agentrt.scheduler.estimates.row import CALLS_DECAY

LEAST_TRIALS = 2
LEAST_PROBABILITY = 0.5
MOST_ORIGINS = 64
"""Of one argument of one call."""

MOST_TRAILS = 512
MOST_CONSTANT_CHARACTERS = 1000
FAINT = 1e-3
"""What weighs less has not been seen for some sixty calls."""

_MOST_DEPTH = 4

Origin = tuple[Any, ...]
"""`("always", JSON)`, or `(call, "arguments" | "result", key, ...)`; the last call is 0."""

Trail = tuple[Any, ...]
"""`(tool,)`, `(tool, argument)`, or these with an origin behind them."""


@record
class EndedCall:
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


@record
class CallGuess:
    """A call that is likely next.

    Attributes:
        tool: Its name.
        arguments: By name.
        probability: How often such a guess was right lately.
        trials: Of how many ever.
    """

    tool: str
    arguments: dict[str, Any]
    probability: float
    trials: int


class CallModel:
    """What is known of the call that comes at one place.

    Attributes:
        count: Calls ever.
        tried: Decayed weight of those that could have been foreseen.
        hits: Of those that were.
        trails: Decayed weight of each tool, argument and origin.
        public: Trails of constants that may be kept.
    """

    __slots__ = ("count", "hits", "public", "trails", "tried")

    def __init__(self) -> None:
        self.count = 0
        self.tried = 0.0
        self.hits = 0.0
        self.trails: dict[Trail, float] = {}
        self.public: set[Trail] = set()

    @property
    def probability(self) -> float:
        """How often it was right lately."""
        return self.hits / self.tried if self.tried else 0.0

    @property
    def tool(self) -> str:
        """That is called most here."""
        return str(max(self.origins((), 1), key=lambda found: found[1])[0][0])

    def learn(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        before: tuple[EndedCall, ...],
        public: Collection[str] = (),
    ) -> None:
        """A call was made here: was it foreseen, and where could its arguments have been from.

        Args:
            tool: That was called.
            arguments: With what.
            before: The last two calls that had ended, the last one first.
            public: Arguments whose values are no secret, as the tool's signature names them.
        """
        if self.count:
            self.tried = self.tried * CALLS_DECAY + 1.0
            self.hits = self.hits * CALLS_DECAY + (
                tool == self.tool and _alike(self.arguments(before), dict(arguments))
            )
        self.count += 1
        faded = ((trail, weight * CALLS_DECAY) for trail, weight in self.trails.items())
        trails = {trail: weight for trail, weight in faded if weight > FAINT}
        for trail in self._explaining(tool, arguments, before, public):
            trails[trail] = trails.get(trail, 0.0) + 1.0
        if len(trails) > MOST_TRAILS:  # tools and arguments weigh at least what their origins do
            trails = dict(nlargest(MOST_TRAILS, trails.items(), key=_heavy))
        self.trails = trails
        self.public &= trails.keys()

    def arguments(self, before: tuple[EndedCall, ...]) -> dict[str, Any] | None:
        """Those of the next call, or None where it is unknown what one of them would be."""
        found: dict[str, Any] = {}
        try:
            for name, origin in self.sources().items():
                found[name] = value_at(origin, before)
        except LookupError:
            return None
        return found

    def sources(self) -> dict[str, Origin]:
        """Where each argument of the likeliest call is looked for; () where nobody knows."""
        tool = self.tool
        weight = self.trails[tool,]
        return {
            trail[1]: max(self.origins(trail, 0), key=_likely, default=((), 0.0))[0][2:]
            for trail, given in self.origins((tool,), 1)
            if 2.0 * given > weight
        }

    def origins(self, above: Trail, more: int) -> Iterator[tuple[Trail, float]]:
        """Trails that go on from `above`: by `more` parts, or by an origin where that is 0."""
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
            if len(text) <= MOST_CONSTANT_CHARACTERS:
                trail = (tool, name, "always", text)
                if name in public:
                    self.public.add(trail)
                yield trail
            for origin in _origins_of(value, before):
                yield (tool, name, *origin)


def value_at(origin: Origin, before: tuple[EndedCall, ...]) -> Any:
    """What stands there.

    Raises:
        LookupError: Nothing does.
    """
    if not origin:
        raise LookupError("nobody knows where it comes from")
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


def _likely(found: tuple[Trail, float]) -> tuple[float, bool, int]:
    """What was always the same explains least; else the latest call, and there the first place."""
    trail, weight = found
    is_constant = trail[2] == "always"
    return (weight, not is_constant, 0 if is_constant else -trail[2])


def _heavy(found: tuple[Trail, float]) -> tuple[float, int]:
    return (found[1], -len(found[0]))


def _alike(one: Any, other: Any) -> bool:
    """Equal, and of one type: 1 is not true."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    return bool(one == other)


def _origins_of(value: Any, before: Iterable[EndedCall]) -> list[Origin]:
    """Everywhere among what went before that `value` stands."""
    found: list[Origin] = []
    for at, called in enumerate(before):
        for part, data in (("arguments", dict(called.arguments)), ("result", called.result)):
            for path, here in _walk(data, 0):
                if _alike(here, value):
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

"""Which engine serves what: a whole program, or each of its generations."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from agentrt.base.errors import UsageError
from agentrt.lab.sim.fluid.library import Ints

Choice = Literal["round-robin", "least-loaded", "two-choices"]
Routing = Literal[
    "program-round-robin",
    "program-least-loaded",
    "program-two-choices",
    "request-round-robin",
    "request-least-loaded",
    "request-two-choices",
]
"""`program-...` keeps a program on one engine, where its contexts are; `request-...` sends every
generation anywhere, as a balancer does that knows of no programs."""


def routing_named(name: str) -> tuple[bool, Choice]:
    """Whether programs stay on an engine, and how it is chosen.

    Raises:
        UsageError: There is no such routing.
    """
    if name not in get_args(Routing):
        raise UsageError(
            f"there is no routing {name!r}", hint=f"Use one of {', '.join(get_args(Routing))}"
        )
    unit, _, how = name.partition("-")
    choice: Choice = (
        "round-robin"
        if how == "round-robin"
        else "least-loaded"
        if how == "least-loaded"
        else "two-choices"
    )
    return unit == "program", choice


class Router:
    """Chooses engines by what they have to do.

    Args:
        choice: How.
        engines: How many there are.
        seed: Of random choices.
    """

    def __init__(self, choice: Choice, engines: int, seed: int) -> None:
        self._choice = choice
        self._engines = engines
        self._next = 0
        self._random = np.random.default_rng([seed, 1])

    def choose(self, count: int, load: Ints) -> Ints:
        """Engines for so many newcomers, one after the other.

        Args:
            count: Newcomers.
            load: `[engines]` what each has to do; every newcomer adds one.
        """
        if self._choice == "round-robin":
            found = (self._next + np.arange(count)) % self._engines
            self._next = (self._next + count) % self._engines
            return found
        if self._choice == "two-choices":
            return self._two_choices(count, load)
        return _least_loaded(count, load)

    def _two_choices(self, count: int, load: Ints) -> Ints:
        pairs = self._random.integers(self._engines, size=(count, 2))
        load = load.copy()
        chosen = np.empty(count, dtype=np.int64)
        for at, (one, other) in enumerate(pairs.tolist()):
            chosen[at] = one if load[one] <= load[other] else other
            load[chosen[at]] += 1
        return chosen


def _least_loaded(count: int, load: Ints) -> Ints:
    load = load.copy()
    chosen = np.empty(count, dtype=np.int64)
    for at in range(count):
        chosen[at] = int(np.argmin(load))
        load[chosen[at]] += 1
    return chosen

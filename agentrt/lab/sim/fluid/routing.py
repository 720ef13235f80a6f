"""The choice of an engine: for a whole program, or for each of its generations."""

from __future__ import annotations

from typing import Literal, cast, get_args

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
"""`program-...` keeps a program on one engine, which has its KV cache; `request-...` sends every
generation to any engine, like a load balancer without knowledge of programs."""


def routing_named(name: str) -> tuple[bool, Choice]:
    """Whether programs stay on an engine, and how it is chosen.

    Raises:
        UsageError: There is no such routing.
    """
    if name not in get_args(Routing):
        raise UsageError(
            f"there is no routing {name!r}", hint=f"Use one of {', '.join(get_args(Routing))}"
        )
    unit, _, choice = name.partition("-")
    return unit == "program", cast(Choice, choice)


class Router:
    """Chooses engines by their load.

    Args:
        choice: Rule of the choice.
        engines: Number of engines.
        seed: Seed of random choices.
    """

    def __init__(self, choice: Choice, engines: int, seed: int) -> None:
        self._choice = choice
        self._engines = engines
        self._next = 0
        self._random = np.random.default_rng([seed, 1])

    def choose(self, count: int, load: Ints) -> Ints:
        """Engines for new arrivals, one after the other.

        Args:
            count: Number of arrivals.
            load: `[engines]` requests of each engine; every arrival adds one.
        """
        if self._choice == "round-robin":
            found = (self._next + np.arange(count)) % self._engines
            self._next = (self._next + count) % self._engines
            return found
        if self._choice == "two-choices":
            candidates = self._random.integers(self._engines, size=(count, 2))
        else:
            candidates = np.broadcast_to(np.arange(self._engines), (count, self._engines))
        load = load.copy()
        chosen = np.empty(count, dtype=np.int64)
        for at, among in enumerate(candidates):
            chosen[at] = among[np.argmin(load[among])]
            load[chosen[at]] += 1
        return chosen

"""Distributions of lengths and durations, by published quantiles or from samples."""

from __future__ import annotations

import math
from random import Random
from typing import Protocol

from agentrt.base.record import record

_Z90 = 1.2815515655446004
"""The 90th percentile of a standard normal."""


class Distribution(Protocol):
    """A positive quantity that differs between programs."""

    def __call__(self, random: Random) -> float:
        """Draw a value."""
        ...


@record
class Fixed:
    """Always the same value.

    Attributes:
        value: The value.
    """

    value: float

    def __call__(self, random: Random) -> float:
        return self.value


@record
class Between:
    """Uniform over a range.

    Attributes:
        low: Least value.
        high: Greatest value.
    """

    low: float
    high: float

    def __call__(self, random: Random) -> float:
        return random.uniform(self.low, self.high)


@record
class Skewed:
    """Lognormal, clipped at both ends.

    Attributes:
        median: Half of the draws are below this value.
        p90: Ninety in a hundred are below this one.
        low: Least value.
        high: Greatest value.
    """

    median: float
    p90: float
    low: float = 0.0
    high: float = math.inf

    def __call__(self, random: Random) -> float:
        sigma = math.log(self.p90 / self.median) / _Z90
        return min(max(self.median * math.exp(random.gauss(0.0, sigma)), self.low), self.high)


@record
class ObservedDistribution:
    """One of the measured values.

    Attributes:
        values: All of them.
    """

    values: tuple[float, ...]

    def __call__(self, random: Random) -> float:
        return random.choice(self.values)


@record
class Tailed:
    """Mostly a body, sometimes a Pareto tail: the durations of tools.

    Attributes:
        body: Distribution of the short durations.
        tail_share: Share of draws that come from the tail.
        tail_from: Least value of the tail.
        alpha: Exponent of the tail; a smaller one makes it longer.
        high: Greatest value.
    """

    body: Distribution
    tail_share: float
    tail_from: float
    alpha: float
    high: float = math.inf

    def __call__(self, random: Random) -> float:
        if random.random() >= self.tail_share:
            return self.body(random)
        return min(self.tail_from * random.paretovariate(self.alpha), self.high)

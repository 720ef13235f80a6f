"""Where lengths and durations come from: distributions by their published quantiles, or samples."""

from __future__ import annotations

import math
from random import Random
from typing import Protocol

from agentrt.base.record import record

_Z90 = 1.2815515655446004
"""Ninety in a hundred draws of a standard normal are below."""


class Distribution(Protocol):
    """A positive quantity that differs from program to program."""

    def __call__(self, random: Random) -> float:
        """One of it."""
        ...


@record
class Fixed:
    """Always the same.

    Attributes:
        value: This.
    """

    value: float

    def __call__(self, random: Random) -> float:
        return self.value


@record
class Between:
    """Each value of a range is as likely as any other.

    Attributes:
        low: The least.
        high: The greatest.
    """

    low: float
    high: float

    def __call__(self, random: Random) -> float:
        return random.uniform(self.low, self.high)


@record
class Skewed:
    """Lognormal, cut at both ends.

    Attributes:
        median: Half of the draws are below.
        p90: Ninety in a hundred are below.
        low: The least.
        high: The greatest.
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
    """One of the values that somebody measured.

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
        body: Of the short ones.
        tail_share: Of draws that come from the tail.
        tail_from: The least of the tail.
        alpha: How fast it falls; the smaller, the longer.
        high: The greatest.
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

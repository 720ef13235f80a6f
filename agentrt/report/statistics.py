"""Percentiles with the interval that chance leaves them, means of ratios, and fairness."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from agentrt.report.plot import Interval

_RESAMPLES = 1_000
_TAIL = 0.025
Statistic = Callable[[Sequence[float]], float]


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of all lie, between neighbours in proportion.

    What never ended is infinite: it counts, and so does a percentile that reaches it.

    Example:
        >>> percentile([3.0, 1.0, 2.0], 0.5), percentile([1.0, 2.0], 0.75)
        (2.0, 1.75)
    """
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low, part = int(at), at - int(at)
    if not part or ordered[low] == ordered[low + 1]:
        return ordered[low]
    return ordered[low] * (1 - part) + ordered[low + 1] * part


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean."""
    return sum(values) / len(values)


def geometric_mean(values: Sequence[float]) -> float:
    """Of ratios.

    Example:
        >>> geometric_mean([0.5, 2.0])
        1.0
    """
    return math.exp(mean([math.log(value) for value in values]))


def interval(values: Sequence[float], statistic: Statistic, seed: int = 0) -> Interval:
    """A statistic and its 95 % interval by the percentile bootstrap, always the same one.

    Args:
        values: Samples, independent of each other.
        statistic: Of any number of them.
        seed: Of the resampling.
    """
    random = Random(seed)
    found = statistic(values)
    if len(values) < 2:
        return Interval(found, found, found)
    again = [statistic(random.choices(values, k=len(values))) for _ in range(_RESAMPLES)]
    return Interval(found, percentile(again, _TAIL), percentile(again, 1 - _TAIL))


def percentiles(values: Sequence[float]) -> dict[str, Interval]:
    """p50, p95 and p99 with their intervals."""
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    return {
        name: interval(values, partial(percentile, share=share)) for name, share in shares.items()
    }


def jain(values: Sequence[float]) -> float:
    """Jain's index of fairness: 1 where all have the same, 1/n where one has all.

    Example:
        >>> jain([1.0, 1.0]), jain([1.0, 0.0])
        (1.0, 0.5)
    """
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0

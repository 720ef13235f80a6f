"""Statistics with the interval that chance leaves them: percentiles, means, ratios, fairness."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from statistics import fmean, stdev
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agentrt.base.record import record

_RESAMPLES = 1_000
_TAIL = 0.025
_T_975 = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Student's t at 97.5 %, from 1 degree of freedom on."""

Floats: TypeAlias = NDArray[np.float64]
Values: TypeAlias = Sequence[float] | Floats
Statistic: TypeAlias = Callable[[Any], float]
"""A function of an array of samples, one a row."""


@record
class Interval:
    """A value and how far it may be off.

    Attributes:
        value: The estimate.
        low: Lower end; equal to `value` if nothing is known.
        high: Upper end.

    Example:
        >>> f"{Interval(1.0, 0.5, 2.0):.1f}"
        '1.0 (0.5 to 2.0)'
    """

    value: float
    low: float
    high: float

    def __format__(self, spec: str) -> str:
        low, high = format(self.low, spec), format(self.high, spec)
        return f"{format(self.value, spec)} ({low} to {high})"


def percentile(values: Values, share: float) -> float:
    """The value below which `share` of all lie, between neighbours in proportion.

    A value that never ended is infinite: it counts, and so does a percentile that reaches it.

    Example:
        >>> percentile([3.0, 1.0, 2.0], 0.5), percentile([1.0, 2.0], 0.75)
        (2.0, 1.75)
    """
    ordered = np.sort(np.asarray(values, np.float64))
    at = share * (len(ordered) - 1)
    low, part = int(at), at - int(at)
    if not part or ordered[low] == ordered[low + 1]:
        return float(ordered[low])
    return float(ordered[low] * (1 - part) + ordered[low + 1] * part)


def percentiles(values: Values) -> dict[str, Interval]:
    """p50, p95 and p99 with their intervals."""
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    return {
        name: interval(values, partial(percentile, share=share)) for name, share in shares.items()
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """Count, p50, p99 and maximum of many values, each one that was measured; {} of none.

    Example:
        >>> spread([3.0, 1.0, 2.0])
        {'count': 3, 'p50': 2.0, 'p99': 3.0, 'max': 3.0}
    """
    if not values:
        return {}
    ordered, count = sorted(values), len(values)
    p50, p99 = (ordered[min(count - 1, int(share * count))] for share in (0.5, 0.99))
    return {"count": count, "p50": p50, "p99": p99, "max": ordered[-1]}


def mean(values: Values) -> float:
    """The arithmetic mean."""
    return float(np.mean(values))


def geometric_mean(values: Values) -> float:
    """The mean of ratios.

    Example:
        >>> geometric_mean([0.5, 2.0])
        1.0
    """
    return math.exp(mean([math.log(value) for value in values]))


def interval(values: Values, statistic: Statistic, seed: int = 0) -> Interval:
    """A statistic and its 95 % interval by the percentile bootstrap, always the same one.

    Args:
        values: Independent samples; if one is several numbers, a row each.
        statistic: A function of any number of them, as an array.
        seed: Seed of the resampling.
    """
    samples = np.asarray(values, np.float64)
    count, found = len(samples), statistic(samples)
    if count < 2:
        return Interval(found, found, found)
    random = np.random.default_rng(seed)
    again = [statistic(samples[random.integers(count, size=count)]) for _ in range(_RESAMPLES)]
    return Interval(found, percentile(again, _TAIL), percentile(again, 1 - _TAIL))


def crossed_interval(values: Floats, seed: int = 0) -> Interval:
    """The mean of a table and its 95 % interval if rows and columns are both a matter of chance.

    For example of measurements of the same programs (columns) in several plays (rows): a play is
    disturbed in its own way, all columns of its row together. Rows and columns are drawn again,
    each by themselves (A. Owen, The pigeonhole bootstrap, 2007). A single row, or column, stays.

    Args:
        values: `[rows, columns]`.
        seed: Seed of the resampling.
    """
    rows, columns = values.shape
    random = np.random.default_rng(seed)
    again = []
    for _ in range(_RESAMPLES):
        drawn = np.ix_(random.integers(rows, size=rows), random.integers(columns, size=columns))
        again.append(mean(values[drawn]))
    return Interval(mean(values), percentile(again, _TAIL), percentile(again, 1 - _TAIL))


def mean_interval(values: Sequence[float]) -> Interval:
    """The mean of a few values, such as one a seed, and its 95 % interval by Student's t."""
    middle = fmean(values)
    if len(values) < 2:
        return Interval(middle, middle, middle)
    t = _T_975[min(len(values) - 1, len(_T_975)) - 1]
    half = t * stdev(values) / len(values) ** 0.5
    return Interval(middle, middle - half, middle + half)


def ratio_interval(values: Sequence[float]) -> Interval:
    """The geometric mean of a few ratios and its 95 % interval by Student's t."""
    found = mean_interval([math.log(value) for value in values])
    return Interval(math.exp(found.value), math.exp(found.low), math.exp(found.high))


def jain(values: Sequence[float]) -> float:
    """Jain's index of fairness: 1 if all have the same, 1/n if one has all.

    Example:
        >>> jain([1.0, 1.0]), jain([1.0, 0.0])
        (1.0, 0.5)
    """
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def kendall_tau(one: Sequence[float], other: Sequence[float]) -> float:
    """How far two lists agree about the order of the same things: from 1 to -1.

    Example:
        >>> kendall_tau([1.0, 2.0, 3.0], [10.0, 30.0, 20.0])
        0.3333333333333333
    """
    signs = [
        float(np.sign(a - b) * np.sign(c - d))
        for (a, c), (b, d) in combinations(zip(one, other, strict=True), 2)
    ]
    return sum(signs) / len(signs) if signs else 1.0

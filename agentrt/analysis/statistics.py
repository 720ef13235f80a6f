"""Percentiles with the interval that chance leaves them, means of ratios, and fairness."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentrt.analysis.plot import Interval

_RESAMPLES = 1_000
_TAIL = 0.025
Values = Sequence[float] | NDArray[np.float64]
Statistic = Callable[[Any], float]
"""Of an array of samples, one a row."""


def percentile(values: Values, share: float) -> float:
    """The value below which `share` of all lie, between neighbours in proportion.

    What never ended is infinite: it counts, and so does a percentile that reaches it.

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


def mean(values: Values) -> float:
    """The arithmetic mean."""
    return float(np.mean(values))


def geometric_mean(values: Values) -> float:
    """Of ratios.

    Example:
        >>> geometric_mean([0.5, 2.0])
        1.0
    """
    return math.exp(mean([math.log(value) for value in values]))


def interval(values: Values, statistic: Statistic, seed: int = 0) -> Interval:
    """A statistic and its 95 % interval by the percentile bootstrap, always the same one.

    Args:
        values: Samples, independent of each other; where one is several numbers, a row each.
        statistic: Of any number of them, as an array.
        seed: Of the resampling.
    """
    samples = np.asarray(values, np.float64)
    count, found = len(samples), statistic(samples)
    if count < 2:
        return Interval(found, found, found)
    random = np.random.default_rng(seed)
    again = [statistic(samples[random.integers(count, size=count)]) for _ in range(_RESAMPLES)]
    return Interval(found, percentile(again, _TAIL), percentile(again, 1 - _TAIL))


def crossed_interval(values: NDArray[np.float64], seed: int = 0) -> Interval:
    """The mean of a table and its 95 % interval where rows and columns are both a matter of chance.

    As of measurements of the same programs (columns) in several plays (rows), each of which was
    disturbed in its own way: all columns of a row together. Rows and columns are drawn again,
    each by themselves (A. Owen, The pigeonhole bootstrap, 2007). A single row, or column, stays.

    Args:
        values: `[rows, columns]`.
        seed: Of the resampling.
    """
    rows, columns = values.shape
    random = np.random.default_rng(seed)
    again = [
        mean(
            values[np.ix_(random.integers(rows, size=rows), random.integers(columns, size=columns))]
        )
        for _ in range(_RESAMPLES)
    ]
    return Interval(mean(values), percentile(again, _TAIL), percentile(again, 1 - _TAIL))


def percentiles(values: Values) -> dict[str, Interval]:
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

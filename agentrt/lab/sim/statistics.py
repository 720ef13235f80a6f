"""Means over seeds with the interval that chance leaves them, and agreement about an order."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from statistics import fmean, stdev

from agentrt.analysis.plot import Interval

_T_975 = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Student's t at 97.5 %, from 1 degree of freedom on."""


def over_seeds(values: Sequence[float]) -> Interval:
    """The mean of one value a seed, and its 95 % interval by Student's t."""
    middle = fmean(values)
    if len(values) < 2:
        return Interval(middle, middle, middle)
    t = _T_975[min(len(values) - 1, len(_T_975)) - 1]
    half = t * stdev(values) / len(values) ** 0.5
    return Interval(middle, middle - half, middle + half)


def ratio_over_seeds(values: Sequence[float]) -> Interval:
    """The geometric mean of one ratio a seed, and its 95 % interval."""
    found = over_seeds([log(value) for value in values])
    return Interval(exp(found.value), exp(found.low), exp(found.high))


def kendall_tau(one: Sequence[float], other: Sequence[float]) -> float:
    """How far two lists agree about the order of the same things: 1 wholly, -1 in nothing.

    Example:
        >>> kendall_tau([1.0, 2.0, 3.0], [10.0, 30.0, 20.0])
        0.3333333333333333
    """
    pairs = [(at, to) for at in range(len(one)) for to in range(at)]
    signs = [_sign(one[at] - one[to]) * _sign(other[at] - other[to]) for at, to in pairs]
    return sum(signs) / len(pairs) if pairs else 1.0


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)

"""Statistics of shares, and of two configurations that ran the same cases."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from agentrt.analysis.statistics import Floats, Interval, interval, mean, percentile

_Z_975 = 1.959963984540054
"""The standard normal distribution at 97.5 %."""


def wilson(hits: int, count: int) -> Interval:
    """A share and its 95 % interval by Wilson's score.

    Args:
        hits: Cases that count, at most `count`.
        count: Cases, at least one.

    Raises:
        ValueError: There is no such share.

    Example:
        >>> f"{wilson(8, 10):.3f}"
        '0.800 (0.490 to 0.943)'
    """
    if not 0 <= hits <= count or count < 1:
        raise ValueError(f"{hits} of {count} is no share")
    share, spread = hits / count, _Z_975**2 / count
    middle = (share + spread / 2) / (1 + spread)
    half = _Z_975 * math.sqrt(share * (1 - share) / count + spread / (4 * count)) / (1 + spread)
    # At the ends the score is the share itself, up to rounding.
    low = 0.0 if hits == 0 else middle - half
    high = 1.0 if hits == count else middle + half
    return Interval(share, low, high)


def mcnemar(lost: int, won: int) -> float:
    """Two-sided p of McNemar's exact test: the chance of a split as uneven if both are equal.

    Args:
        lost: Cases that only the first configuration passes.
        won: Cases that only the second one passes.

    Example:
        >>> mcnemar(6, 0), mcnemar(3, 3)
        (0.03125, 1.0)
    """
    count = lost + won
    tail = sum(math.comb(count, k) for k in range(min(lost, won) + 1))
    return min(1.0, float(2 * tail / 2**count))


def paired_difference(first: Sequence[float], second: Sequence[float], seed: int) -> Interval:
    """Mean of second minus first and its 95 % interval by the bootstrap over cases.

    Args:
        first: A value a case.
        second: The values of the same cases, in the same order.
        seed: Seed of the resampling.

    Raises:
        ValueError: The lengths differ.

    Example:
        >>> paired_difference([1.0, 0.0], [1.0, 0.0], seed=0)
        Interval(value=0.0, low=0.0, high=0.0)
    """
    return interval([b - a for a, b in zip(first, second, strict=True)], mean, seed)


def paired_change(
    first: Sequence[float], second: Sequence[float], share: float | None, seed: int
) -> Interval:
    """Relative change of a percentile, or of the mean, and its 95 % interval.

    Cases are drawn again as pairs, so that what makes a case slow in both configurations cancels.

    Args:
        first: A value a case.
        second: The values of the same cases, in the same order.
        share: Share of the percentile; None takes the mean.
        seed: Seed of the resampling.

    Returns:
        The change as a share: 0.1 is 10 % more. Not a number if the first is zero.

    Example:
        >>> paired_change([1.0, 2.0], [2.0, 4.0], 0.5, seed=0).value
        1.0
    """

    def change(pairs: Floats) -> float:
        before, after = (
            mean(column) if share is None else percentile(column, share) for column in pairs.T
        )
        return float(after / before - 1) if before else math.nan

    return interval(np.column_stack([first, second]), change, seed)


def pareto_front(points: Sequence[tuple[float, ...]]) -> list[int]:
    """Indices of the points that no other one dominates, where less is better.

    A point dominates another one if it is nowhere worse and somewhere better; equal points stay.

    Example:
        >>> pareto_front([(1.0, 5.0), (2.0, 2.0), (2.0, 6.0)])
        [0, 1]
    """

    def dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
        return one != other and all(a <= b for a, b in zip(one, other, strict=True))

    return [
        index
        for index, point in enumerate(points)
        if not any(dominates(other, point) for other in points)
    ]

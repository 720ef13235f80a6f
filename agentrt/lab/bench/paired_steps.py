"""Steps of arms that took turns: their medians, and their ratios turn by turn."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def median_ms(samples_s: Sequence[float]) -> float:
    """Median of an arm's steps, in milliseconds."""
    return 1e3 * statistics.median(samples_s)


def ratios_by_turn(samples_s: Sequence[float], by_s: Sequence[float]) -> list[float]:
    """The steps of one arm by those of another in the same turn, so that slow turns cancel out.

    Example:
        >>> ratios_by_turn([2.0, 6.0], [1.0, 2.0])
        [2.0, 3.0]

    Raises:
        ValueError: The arms have not had as many turns.
    """
    return [one / other for one, other in zip(samples_s, by_s, strict=True)]

"""Rounding of parts so that the printed numbers still add up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

K = TypeVar("K")


def quanta(seconds: float, per_second: int) -> int:
    """`seconds` in whole units of `1 / per_second`."""
    return round(seconds * per_second)


def shared_quanta(parts: Mapping[K, float], total: int, per_second: int) -> dict[K, int]:
    """Whole units for each part, summing to `total`, each at most one unit off if possible.

    The largest remainders get the units that rounding down leaves over.

    Args:
        parts: Seconds by key, none negative.
        total: Required sum of the units; `quanta` of the sum of `parts`.
        per_second: Units in a second.
    """
    exact = {key: seconds * per_second for key, seconds in parts.items()}
    whole = {key: int(units) for key, units in exact.items()}
    over = total - sum(whole.values())
    step = 1 if over > 0 else -1
    by_remainder = sorted(exact, key=lambda key: step * (whole[key] - exact[key]))
    while over:
        for key in by_remainder:
            if not over:
                break
            if whole[key] + step >= 0:
                whole[key] += step
                over -= step
    return whole

"""The rate at which programs are so many times slower than alone, found by looking at few rates."""

from __future__ import annotations

from collections.abc import Callable
from math import log

from agentrt.base.record import record

_FACTOR = 1.6


@record
class RateOutcome:
    """What became of one rate.

    Attributes:
        rate: Programs a second.
        slowdown: Mean over programs.
    """

    rate: float
    slowdown: float


def find_rate(
    look: Callable[[float], float],
    first: float,
    wanted: float,
    *,
    near: float = 0.15,
    most_looks: int = 6,
) -> tuple[RateOutcome, tuple[RateOutcome, ...]]:
    """The rate that comes nearest to a slowdown, and every rate that was looked at.

    The interval is widened until the slowdown lies within, then halved, rates taken as ratios. What
    comes nearest is taken, however near it is: few programs may never be that slow.

    Args:
        look: Plays at a rate and gives the mean slowdown.
        first: Rate to begin with.
        wanted: Slowdown to be found.
        near: Share by which it may be missed.
        most_looks: As each takes a while.
    """
    low = high = 0.0
    rate = first
    looks: list[RateOutcome] = []

    def miss(one: RateOutcome) -> float:
        return abs(log(max(one.slowdown, 1e-9) / wanted))

    while len(looks) < most_looks:
        looks.append(RateOutcome(rate, look(rate)))
        if miss(looks[-1]) <= log(1 + near):
            break
        if looks[-1].slowdown < wanted:
            low = rate
        else:
            high = rate
        rate = (low * high) ** 0.5 if low and high else rate * (_FACTOR if low else 1 / _FACTOR)
    return min(looks, key=miss), tuple(looks)

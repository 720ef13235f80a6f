"""What policies sort by and explain themselves with, and how waiting makes work more urgent."""

from __future__ import annotations

from math import frexp

from agentrt.protocol.backend import SchedulingInfo

PriorityKey = tuple[float, ...]
"""Smallest first. The first element is what the policy goes by, the others only break ties."""

KeyTerms = tuple[tuple[str, float], ...]
"""What a key was worked out from, by name; names carry their units."""

AGEING = 8.0
"""A wait of so many times its whole service halves what a run counts for."""

AGEING_FLOOR_S = 0.05
"""Runs that need next to nothing age as if they needed at least this much."""

REFRESH_STEPS = 8
"""Engine steps for which a place stands while nothing is told: waiting changes it slowly."""

_TELLABLE_S = 1e-3


def waited_s(now_s: float, info: SchedulingInfo) -> float:
    """How long runnable nodes of its run have waited, until now."""
    since_s = now_s - info.as_of_s
    return info.waited_s + info.waiting * since_s if since_s > 0 else info.waited_s


def aged_s(size_s: float, service_s: float, waited_s: float) -> float:
    """`size_s` made smaller by waiting, hyperbolically: nothing waits for ever, nothing jumps.

    Args:
        size_s: Seconds of service to go by.
        service_s: What the run needs in all, as far as is known: long runs age slowly.
        waited_s: How long it has waited.
    """
    return size_s / (1.0 + waited_s / (AGEING * service_s + AGEING_FLOOR_S))


def level_of(seconds: float) -> int:
    """Power of two of milliseconds, so that small changes leave an order as it is; at least 0."""
    return max(0, frexp(seconds / _TELLABLE_S)[1]) if seconds > 0 else 0

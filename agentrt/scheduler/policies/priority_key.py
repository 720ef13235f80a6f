"""Priority keys: their terms, and ageing, by which waiting raises priority."""

from __future__ import annotations

from math import frexp

from agentrt.protocol.backend import SchedulingInfo

PriorityKey = tuple[float, ...]
"""Sort key, smallest first. The first element decides, the others only break ties."""

KeyTerms = tuple[tuple[str, float], ...]
"""Quantities from which a key was computed, by name; names carry their units."""

AGEING = 8.0
"""A wait of this multiple of its total service halves the weight of a run."""

AGEING_FLOOR_S = 0.05
"""Runs that need almost nothing age as if they needed at least this much."""

REFRESH_STEPS = 8
"""Engine steps for which a key is cached: waiting changes it slowly."""

_TELLABLE_S = 1e-3


def waited_s(now_s: float, info: SchedulingInfo) -> float:
    """Time for which runnable nodes of its run have waited, until now."""
    since_s = now_s - info.as_of_s
    return info.waited_s + info.waiting * since_s if since_s > 0 else info.waited_s


def aged_s(size_s: float, service_s: float, waited_s: float) -> float:
    """`size_s` discounted by waiting, hyperbolically: nothing waits for ever, nothing jumps.

    Args:
        size_s: Seconds of service that decide.
        service_s: Total service of the run, as far as known: long runs age slowly.
        waited_s: Seconds for which the run has waited.
    """
    return size_s / (1.0 + waited_s / (AGEING * service_s + AGEING_FLOOR_S))


def level_of(seconds: float) -> int:
    """Power of two of milliseconds, at least 0: small changes leave an order as it is."""
    return max(0, frexp(seconds / _TELLABLE_S)[1]) if seconds > 0 else 0

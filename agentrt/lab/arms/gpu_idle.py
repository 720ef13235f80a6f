"""How much of a while a GPU had nothing to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch.profiler import ProfilerActivity, profile


@dataclass(frozen=True, slots=True)
class Idleness:
    """Of one while.

    Attributes:
        span_s: From the first thing that ran there to the end of the last.
        busy_s: In which at least one ran.
        launches: How many there were.
    """

    span_s: float
    busy_s: float
    launches: int

    @property
    def idle_share(self) -> float:
        """Of the span, 0 where nothing ran."""
        return 1 - self.busy_s / self.span_s if self.span_s else 0.0


def watched(work: Callable[[], None]) -> Idleness:
    """Do some work and tell how idle the GPU was meanwhile, as torch's profiler saw it.

    The profiler makes launches a little slower, so that the true share is at most this one.
    """
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        work()
        torch.cuda.synchronize()
    return idleness(
        (event.time_range.start * 1e-6, event.time_range.end * 1e-6)
        for event in seen.events()
        if event.device_type.name == "CUDA"
    )


def idleness(intervals: Iterable[tuple[float, float]]) -> Idleness:
    """Of intervals in seconds, which may overlap."""
    ordered = sorted(intervals)
    if not ordered:
        return Idleness(0.0, 0.0, 0)
    busy_s, began_s = 0.0, ordered[0][0]
    reached_s = began_s
    for start_s, end_s in ordered:
        busy_s += max(0.0, end_s - max(start_s, reached_s))
        reached_s = max(reached_s, end_s)
    return Idleness(reached_s - began_s, busy_s, len(ordered))

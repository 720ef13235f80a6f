"""The share of a time span in which a GPU had nothing to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch.profiler import ProfilerActivity, profile

from agentrt.base.record import record


@record
class Idleness:
    """How idle a GPU was.

    Attributes:
        span_s: Seconds from the first launch's start to the last end.
        busy_s: Seconds of these in which at least one launch ran.
        launches: Number of launches.
    """

    span_s: float
    busy_s: float
    launches: int

    @property
    def idle_share(self) -> float:
        """Idle share of the span; 0 if nothing ran."""
        return 1 - self.busy_s / self.span_s if self.span_s else 0.0


def watched(work: Callable[[], None]) -> Idleness:
    """Do some work and measure how idle the GPU was, as torch's profiler saw it.

    The profiler makes launches a little slower, so the true idle share is at most this one.
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
    """Idleness between intervals in seconds, which may overlap."""
    ordered = sorted(intervals)
    if not ordered:
        return Idleness(0.0, 0.0, 0)
    began_s = reached_s = ordered[0][0]
    busy_s = 0.0
    for start_s, end_s in ordered:
        busy_s += max(0.0, end_s - max(start_s, reached_s))
        reached_s = max(reached_s, end_s)
    return Idleness(reached_s - began_s, busy_s, len(ordered))

"""The share of a time span in which a GPU had nothing to do, and what it did in the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace

import torch
from torch.profiler import ProfilerActivity, profile

from agentrt.base.record import record

_SHORT_GAP_S = 4e-6
_LONGEST = 24
_NAME = 80


@record
class Idleness:
    """How idle a GPU was.

    Attributes:
        span_s: Seconds from the first launch's start to the last end.
        busy_s: Seconds of these in which at least one launch ran.
        launches: Number of launches.
        between_s: Idle seconds in gaps too short for the host to be behind them.
        kernels: Launches and their seconds by name, the longest first.
    """

    span_s: float
    busy_s: float
    launches: int
    between_s: float = 0.0
    kernels: tuple[tuple[str, int, float], ...] = ()

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
    launches = [event for event in seen.events() if event.device_type.name == "CUDA"]
    spans = [(one.time_range.start * 1e-6, one.time_range.end * 1e-6) for one in launches]
    by_name: dict[str, list[float]] = defaultdict(list)
    for one, (start_s, end_s) in zip(launches, spans, strict=True):
        by_name[one.name].append(end_s - start_s)
    kernels = [(name[:_NAME], len(took_s), sum(took_s)) for name, took_s in by_name.items()]
    kernels.sort(key=lambda one: -one[2])
    return replace(idleness(spans), kernels=tuple(kernels[:_LONGEST]))


def idleness(intervals: Iterable[tuple[float, float]]) -> Idleness:
    """Idleness between intervals in seconds, which may overlap."""
    ordered = sorted(intervals)
    if not ordered:
        return Idleness(0.0, 0.0, 0)
    began_s = reached_s = ordered[0][0]
    busy_s = between_s = 0.0
    for start_s, end_s in ordered:
        gap_s = start_s - reached_s
        if 0 < gap_s < _SHORT_GAP_S:
            between_s += gap_s
        busy_s += max(0.0, end_s - max(start_s, reached_s))
        reached_s = max(reached_s, end_s)
    return Idleness(reached_s - began_s, busy_s, len(ordered), between_s)

"""Arrivals of programs: independent of each other, or in bursts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

from agentrt.base.errors import UsageError
from agentrt.lab.workloads.trace import Arrival, ProgramTrace, Workload


def one_by_one(programs: Iterable[ProgramTrace]) -> Workload:
    """All programs at the beginning, for plays of one at a time."""
    return tuple(Arrival(0.0, program) for program in programs)


def poisson(programs: Iterable[ProgramTrace], rate: float, random: Random) -> Workload:
    """Independent arrivals.

    Args:
        programs: Programs in their order.
        rate: Programs a second, on average.
        random: Source of the gaps.

    Raises:
        UsageError: The rate is not positive.
    """
    return _placed(programs, rate, (random.expovariate(1.0) for _ in iter(int, 1)))


def bursty(
    programs: Iterable[ProgramTrace], rate: float, random: Random, variation: float = 4.0
) -> Workload:
    """Arrivals in bursts: many short gaps and few long ones.

    Gaps are exponential with one of two means: their deviation is `variation` times their mean.

    Args:
        programs: Programs in their order.
        rate: Programs a second, on average.
        random: Source of the gaps.
        variation: Deviation of the gaps divided by their mean, above 1; 13 in a trace of a coding
            assistant.

    Raises:
        UsageError: The rate is not positive, or the variation does not exceed 1.
    """
    if not variation > 1:
        raise UsageError(f"variation={variation} is no burst", hint="Give more than 1, or poisson")
    return _placed(programs, rate, _gaps(random, variation))


def _gaps(random: Random, variation: float) -> Iterator[float]:
    """Gaps of mean 1; each of the two kinds takes half of the time."""
    squared = variation * variation
    often = (1 + ((squared - 1) / (squared + 1)) ** 0.5) / 2
    while True:
        share = often if random.random() < often else 1 - often
        yield random.expovariate(2 * share)


def _placed(programs: Iterable[ProgramTrace], rate: float, gaps: Iterator[float]) -> Workload:
    if not rate > 0:
        raise UsageError(f"rate={rate} is no rate of arrivals", hint="Give programs a second")
    at_s = 0.0
    placed = []
    for program in programs:
        at_s += next(gaps) / rate
        placed.append(Arrival(at_s, program))
    return tuple(placed)

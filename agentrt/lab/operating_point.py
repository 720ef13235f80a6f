"""The operating point of a comparison: a rate at which a plain engine is slow, and memory to match.

The plain engine serves requests first come first served. A mix's working set is what the programs
under way would keep at the rate at which that engine, with all the memory that they want, makes
them so many times slower than alone. The engine then gets a share of that memory, and with it each
draw of programs its own rate of the same slowdown.

The working set is not measured again at that lower rate. Fewer programs are under way there, so
the memory would shrink, the rate with it, and so on down to the largest request: an engine that is
short of memory is ten times slower long before three times its memory is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf, log
from statistics import fmean
from typing import TypeAlias

from agentrt.base.errors import UsageError
from agentrt.base.record import record

_PAGE_TOKENS = 16  # memory comes in pages


@record
class RateProbe:
    """The plain engine at one rate.

    Attributes:
        rate: Programs a second.
        kv_tokens: Memory of the engine.
        slowdown: Mean over programs of their latency divided by their latency alone.
        working_set_tokens: Tokens that the programs under way would keep, on average.
    """

    rate: float
    kv_tokens: int
    slowdown: float
    working_set_tokens: float


Measure: TypeAlias = Callable[[float, int], RateProbe]
"""Serves one draw of programs at a rate, with so many tokens of memory."""


@record
class RateSearch:
    """How a rate is searched.

    Attributes:
        near: Share by which the slowdown may be missed.
        factor: Ratio of successive rates until the slowdown lies between two of them.
        most_halvings: Halvings of that interval, rates taken as ratios.
        most_probes: Probes in all.
        most_rate: Rate beyond which the search fails.
    """

    near: float
    factor: float
    most_halvings: int
    most_probes: int = 100
    most_rate: float = inf


@record
class OperatingPoint:
    """Memory and rates of a comparison.

    Attributes:
        kv_tokens: Memory of the engine.
        found: By draw, the probe at its rate.
        tried: Every probe.
        ample: The first draw with all the memory that it wants; None if the memory was given.
    """

    kv_tokens: int
    found: tuple[RateProbe, ...]
    tried: tuple[RateProbe, ...]
    ample: RateProbe | None = None

    @property
    def slowdown(self) -> float:
        """Slowdown of the plain engine, mean over draws."""
        return fmean(one.slowdown for one in self.found)

    @property
    def working_set_tokens(self) -> float:
        """Tokens that the programs under way would keep at the rates found, mean over draws."""
        return fmean(one.working_set_tokens for one in self.found)

    def in_words(self) -> str:
        """The choice in a sentence."""
        text = f"{self.kv_tokens} tokens of KV memory"
        if self.ample is not None:
            whole = self.ample.working_set_tokens
            text += (
                f", {self.kv_tokens / (whole or 1.0):.2f} of the mix's working set ({whole:.0f} "
                f"tokens at {self.ample.rate:.3g} programs a second, where fcfs with all the "
                f"memory it wants has a mean slowdown of {self.ample.slowdown:.1f})"
            )
        rates = ", ".join(f"{one.rate:.3g}" for one in self.found)
        return (
            f"{text}; each draw at the rate at which fcfs has a mean slowdown of about "
            f"{self.slowdown:.1f} ({rates} programs a second), where the programs under way would "
            f"keep {self.working_set_tokens:.0f} tokens"
        )


def operating_point(
    measures: Sequence[Measure],
    search: RateSearch,
    *,
    first_rate: float,
    slowdown: float,
    kv_share: float,
    ample_tokens: int,
    least_tokens: int,
    rate: float = 0.0,
    kv_tokens: int = 0,
) -> OperatingPoint:
    """Find the memory with the first draw, and a rate for each.

    How slow an engine gets at a rate differs from draw to draw, and steeply.

    Args:
        measures: One for each draw of programs.
        search: How rates are searched.
        first_rate: Rate at which the search begins.
        slowdown: Slowdown of the plain engine at the rates.
        kv_share: Memory divided by the working set; 0 gives `ample_tokens`.
        ample_tokens: Memory that no mix fills.
        least_tokens: Memory that the largest request needs.
        rate: Programs a second if they are given; 0 searches.
        kv_tokens: Memory if it is given; 0 takes the share.

    Raises:
        UsageError: There is no such point: not enough programs to be so slow.
    """
    tried: list[RateProbe] = []

    def find(measure: Measure, first: float, tokens: int) -> RateProbe:
        def probe(at: float) -> RateProbe:
            tried.append(measure(at, tokens))
            return tried[-1]

        return probe(rate) if rate else find_rate(probe, first, slowdown, search)

    ample = None if kv_tokens else find(measures[0], first_rate, ample_tokens)
    if ample is not None:
        wanted = int(kv_share * ample.working_set_tokens) // _PAGE_TOKENS * _PAGE_TOKENS
        kv_tokens = max(wanted, least_tokens) if kv_share else ample_tokens
    found = [ample] if ample is not None and not kv_share else []
    for measure in measures[len(found) :]:
        first = found[0].rate if found else ample.rate if ample is not None else first_rate
        found.append(find(measure, first, kv_tokens))
    return OperatingPoint(kv_tokens, tuple(found), tuple(tried), ample)


def find_rate(
    probe: Callable[[float], RateProbe], first: float, slowdown: float, search: RateSearch
) -> RateProbe:
    """The probe with the nearest slowdown, however near: few programs may never be that slow.

    Args:
        probe: Serves programs at a rate.
        first: Rate at which the search begins.
        slowdown: Slowdown to be found.
        search: How to search.

    Raises:
        UsageError: The search went beyond its highest rate.
    """
    low = high = 0.0
    rate, halvings = first, 0
    probes: list[RateProbe] = []
    while len(probes) < search.most_probes and halvings <= search.most_halvings:
        if rate > search.most_rate:
            raise UsageError(
                f"even {rate:.3g} programs a second are not {slowdown} times slower",
                hint="Give more programs: --programs 600",
            )
        probes.append(probe(rate))
        if _miss(probes[-1], slowdown) <= log(1 + search.near):
            break
        if probes[-1].slowdown < slowdown:
            low = rate
        else:
            high = rate
        if low and high:
            halvings += 1
            rate = (low * high) ** 0.5
        else:
            rate *= search.factor if low else 1 / search.factor
    return min(probes, key=partial(_miss, slowdown=slowdown))


def _miss(probe: RateProbe, slowdown: float) -> float:
    return abs(log(max(probe.slowdown, 1e-9) / slowdown))

"""Where a comparison is made: the rate at which a plain engine is slow, and memory to match.

A mix's working set is what the programs under way would keep, at the rate at which requests served
as they come make programs so many times slower than alone, with all the memory that they want. The
engine gets a share of that, and with it each draw of programs its own rate of the same slowdown.

It is not taken anew at that lower rate. There fewer programs are under way, so that the memory
would shrink, the rate with it, and so on down to the largest request: an engine that is short of
memory is ten times slower long before three times its memory is under way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from statistics import fmean

from agentrt.base.errors import UsageError
from agentrt.lab.sim.arms import arms_named
from agentrt.lab.sim.study import AMPLE_TOKENS, Study

_NEAR = 0.05
_MOST_HALVINGS = 6
_MOST_RATES = 50
_FACTOR = 1.4

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RateLook:
    """What fcfs makes of a rate.

    Attributes:
        rate: Programs a second.
        kv_tokens: Of the engine.
        slowdown: Mean over programs.
        working_set_tokens: That the programs under way would keep.
    """

    rate: float
    kv_tokens: int
    slowdown: float
    working_set_tokens: float


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """What was found.

    Attributes:
        kv_tokens: Of the engine.
        found: By seed, the rate and what fcfs makes of it.
        tried: Every rate that was looked at.
        ample: What fcfs makes of the first seed with all the memory that it wants; None where the
            engine's memory was given.
    """

    kv_tokens: int
    found: tuple[RateLook, ...]
    tried: tuple[RateLook, ...]
    ample: RateLook | None = None

    @property
    def slowdown(self) -> float:
        """Of fcfs, mean over seeds."""
        return fmean(one.slowdown for one in self.found)

    @property
    def working_set_tokens(self) -> float:
        """That the programs under way would keep at the rates found, mean over seeds."""
        return fmean(one.working_set_tokens for one in self.found)

    def in_words(self) -> str:
        """What was chosen, in a sentence."""
        told = f"{self.kv_tokens} tokens of KV memory"
        if self.ample is not None:
            whole = self.ample.working_set_tokens
            told += (
                f", {self.kv_tokens / whole:.2f} of the mix's working set ({whole:.0f} tokens at "
                f"{self.ample.rate:.3g} programs a second, where fcfs with all the memory it wants "
                f"has a mean slowdown of {self.ample.slowdown:.1f})"
            )
        rates = ", ".join(f"{one.rate:.3g}" for one in self.found)
        return (
            f"{told}; each draw at the rate at which fcfs has a mean slowdown of about "
            f"{self.slowdown:.1f} ({rates} programs a second), where the programs under way would "
            f"keep {self.working_set_tokens:.0f} tokens"
        )


def operating_point(
    study: Study,
    *,
    kv_share: float,
    slowdown: float,
    seeds: int = 1,
    rate: float = 0.0,
    kv_tokens: int = 0,
    tell: Tell = lambda text: None,
) -> OperatingPoint:
    """Rate and memory at which fcfs has that mean slowdown, with that share of the working set.

    How slow an engine gets at a rate differs from draw to draw, and steeply: memory is found with
    the first, and each draw has a rate of its own.

    Args:
        study: Of the mix.
        kv_share: Memory by working set.
        slowdown: That fcfs is to have.
        seeds: So many draws of programs.
        rate: Programs a second, where it is given.
        kv_tokens: Memory, where it is given.
        tell: Called with what was tried.

    Raises:
        UsageError: There is no such point: not enough programs to be so slow.
    """
    if not kv_share > 0 or not slowdown > 1 or rate < 0 or kv_tokens < 0:
        raise UsageError(
            f"a memory share of {kv_share} and a slowdown of {slowdown} are no point",
            hint="Give a share above 0 and a slowdown above 1: --kv-share 0.33 --slowdown 10",
        )
    tried: list[RateLook] = []

    def find(seed: int, at: float, tokens: int) -> RateLook:
        def look(at: float) -> RateLook:
            tried.append(_look(study, seed, at, tokens, tell))
            return tried[-1]

        return look(rate) if rate else _rate_of(look, at, slowdown, study)

    ample = None if kv_tokens else find(0, study.full_rate, AMPLE_TOKENS)
    at, tokens = study.full_rate, kv_tokens
    if ample is not None:
        at = ample.rate
        wanted = int(kv_share * ample.working_set_tokens) // 16 * 16
        tokens = _at_least(study, wanted, seeds)
    found: list[RateLook] = []
    for seed in range(seeds):
        found.append(find(seed, at, tokens))
        at = found[0].rate
    return OperatingPoint(tokens, tuple(found), tuple(tried), ample)


def _look(study: Study, seed: int, rate: float, kv_tokens: int, tell: Tell) -> RateLook:
    (fcfs,) = arms_named("fcfs")
    point = study.point(fcfs, rate, seed, kv_tokens)
    slow = float(point.slowdown.mean())
    tell(
        f"seed {seed}, {rate:.4g}/s, {kv_tokens} tokens of KV: slowdown {slow:.2f}, "
        f"working set {point.working_set_tokens:.0f}"
    )
    return RateLook(rate, kv_tokens, slow, point.working_set_tokens)


def _rate_of(
    look: Callable[[float], RateLook], rate: float, slowdown: float, study: Study
) -> RateLook:
    """The point at which the slowdown is the wanted one, by halving the interval."""
    found = look(rate)
    below = found.slowdown < slowdown
    factor = _FACTOR if below else 1 / _FACTOR
    low = high = rate
    while (found.slowdown < slowdown) == below:
        if abs(found.slowdown / slowdown - 1) <= _NEAR:
            return found
        low, high = sorted((rate, rate * factor))
        rate *= factor
        if rate > _MOST_RATES * study.full_rate:
            raise UsageError(
                f"even {rate:.3g} programs a second are not {slowdown} times slower",
                hint="Give more programs: --programs 600",
            )
        found = look(rate)
    best = found
    for _ in range(_MOST_HALVINGS):
        if abs(best.slowdown / slowdown - 1) <= _NEAR:
            break
        middle = (low * high) ** 0.5
        found = look(middle)
        low, high = (middle, high) if found.slowdown < slowdown else (low, middle)
        if abs(log(found.slowdown / slowdown)) < abs(log(best.slowdown / slowdown)):
            best = found
    return best


def _at_least(study: Study, kv_tokens: int, seeds: int) -> int:
    """So much memory, or as much as the largest request of any draw needs."""
    largest = max(study.largest_tokens(seed) for seed in range(seeds))
    return max(kv_tokens, 16 * (largest // 16 + 2))

"""The operating point of an open load: programs that fit, memory, and a rate, by playing them.

All of it is found on our engine, served first come first served. Memory is found with the first
draw and without an admission gate, as an engine serves that knows requests only. The rate is found
with the gate, which is the baseline, and is one for all draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from agentrt.analysis.statistics import mean
from agentrt.base.config import SchedulerConfig
from agentrt.base.record import record
from agentrt.lab.arms.served import PAGE_TOKENS
from agentrt.lab.bench.compound.figures import PlayedProgram
from agentrt.lab.bench.compound.load_draw import (
    LoadDraw,
    largest_tokens,
    load_draw,
    load_draws,
)
from agentrt.lab.bench.compound.load_figures import counted
from agentrt.lab.bench.compound.load_truth import step_time
from agentrt.lab.bench.compound.plan import ProgramDraw, Round
from agentrt.lab.operating_point import OperatingPoint, RateProbe, RateSearch, operating_point
from agentrt.lab.progress import log
from agentrt.lab.sim.arms import PLAIN, arms_named
from agentrt.lab.workloads.arrivals import one_by_one
from agentrt.lab.workloads.site_limits import SiteLimits, site_limits
from agentrt.lab.workloads.step_sample import StepSample
from agentrt.lab.workloads.trace import ProgramTrace
from agentrt.scheduler.estimates.step_model import StepTime

ENOUGH_KV_TOKENS = 32_768
ROOM = 1.1
"""Least memory divided by the longest request: an engine keeps pages for other things, too."""
_SHORTER = 0.7  # requests are made to fit with this to spare, as the working set is a guess then
_DRAWS = 3
_SEARCH = RateSearch(near=0.12, factor=1.5, most_halvings=6, most_probes=6)
BASELINE = "fcfs+gate"
_GAIN = 1.5  # of a batch, roughly
_FIRST = 2.5  # first rate of the search, divided by that of programs one after the other


@record
class OpenLoad:
    """An open load as asked for.

    Attributes:
        rate: Programs a second; 0 finds the rate at which the baseline is slow.
        slowdown: Slowdown of the baseline there, mean over programs.
        programs: Programs of each draw.
        draws: Number of draws.
        plays: Plays of each draw; others have other text.
        factors: Rates of the comparison, divided by that rate.
        kv_share: Memory divided by the working set of the mix; 0 gives enough.
        tenants: Tenants among whom programs are dealt out.
    """

    rate: float
    slowdown: float
    programs: int
    draws: int
    plays: int
    factors: tuple[float, ...]
    kv_share: float
    tenants: int

    @property
    def rates(self) -> tuple[float, ...]:
        """Factors of the rates, the lowest first; a given rate is the only one."""
        return (1.0,) if self.rate else tuple(sorted({*self.factors, 1.0}))


PlayOne: TypeAlias = Callable[[Round], tuple[Sequence[PlayedProgram], Sequence[StepSample]]]
OpenEngine: TypeAlias = Callable[[SchedulerConfig, int, ExitStack], PlayOne]
"""Opens an engine with so many tokens of KV memory; the stack closes it."""


@record
class LoadPoint:
    """The programs and the operating point of a load.

    Attributes:
        draws: Programs of each draw.
        alone: By name, each of them played alone with enough memory.
        point: Memory and rate; the same rate for all draws.
        lasts_s: By probe, seconds from the beginning of a draw to its last program's end.
        step: Time of a step of the engine.
        longest: Tokens that a request may have, by which programs were scaled down; 0 for none.
    """

    draws: tuple[LoadDraw, ...]
    alone: Mapping[str, PlayedProgram]
    point: OperatingPoint
    lasts_s: Mapping[RateProbe, float]
    step: StepTime
    longest: int

    @property
    def programs(self) -> list[ProgramTrace]:
        """The programs of all draws."""
        return [program for draw in self.draws for program in draw.programs]

    @property
    def rate(self) -> float:
        """Programs a second."""
        return self.point.found[0].rate

    @property
    def alone_s(self) -> dict[str, float]:
        """Latency alone, by name."""
        return {name: one.latency_s for name, one in self.alone.items()}

    @property
    def working_set_tokens(self) -> float:
        """Working set of the mix."""
        ample = self.point.ample
        return ample.working_set_tokens if ample is not None else 0.0

    @property
    def kv_share(self) -> float:
        """Memory divided by the working set of the mix."""
        return self.point.kv_tokens / (self.working_set_tokens or 1.0)


def find_load_point(load: OpenLoad, drawing: ProgramDraw, open_engine: OpenEngine) -> LoadPoint:
    """Draw programs, play them alone, find memory and rate.

    Args:
        load: The load as asked for.
        drawing: How programs are drawn.
        open_engine: Opens an engine.

    Raises:
        UsageError: Programs cannot be made to fit.
        BenchFailed: The engine failed.
    """
    with ExitStack() as stack:
        plays = _SearchPlays(load, drawing, open_engine, stack)
        plays.draw_programs()
        services_s = [one.service_s for one in plays.all()]
        if not load.rate:
            most_s = sum(services_s) / _GAIN * (1 + 1 / load.draws) * _SEARCH.most_probes
            log(f"looking for the rate: at most about {most_s / 60:.0f} minutes")
        least_tokens = int(ROOM * largest_tokens(plays.draws))
        point = operating_point(
            [plays.measure],
            _SEARCH,
            first_rate=_FIRST / mean(services_s),
            slowdown=load.slowdown,
            kv_share=load.kv_share,
            ample_tokens=ENOUGH_KV_TOKENS,
            least_tokens=least_tokens // PAGE_TOKENS * PAGE_TOKENS,
            rate=load.rate,
        )
    step = step_time(plays.steps)
    return LoadPoint(plays.draws, plays.alone, point, plays.lasts_s, step, plays.longest)


def warm_draw(load: OpenLoad, drawing: ProgramDraw, draws: Sequence[LoadDraw]) -> LoadDraw:
    """Other programs, from which an arm learns before it is measured."""
    longest = largest_tokens(draws)
    return load_draw(len(draws), load.programs, drawing, tenants=load.tenants, longest=longest)


def limits_of(load: OpenLoad, drawing: ProgramDraw, draws: Sequence[LoadDraw]) -> SiteLimits:
    """Limits of outputs, the same for all draws and for the programs to learn from."""
    warm = warm_draw(load, drawing, draws)
    return site_limits(program for draw in (*draws, warm) for program in draw.programs)


@dataclass
class _SearchPlays:
    """Plays on one engine at a time, which is opened anew for another memory or order.

    Attributes:
        load: The load as asked for.
        drawing: How programs are drawn.
        open_engine: Opens an engine.
        stack: Closes it.
        opened: Scheduler and memory of the engine that is open; None if none is.
        plays: Number of plays so far.
        draws: The programs.
        alone: By name, each of them played alone.
        lasts_s: By probe, mean seconds to the end of a draw.
        limits: Limits of outputs.
        steps: Steps of all plays.
        longest: Tokens that a request may have; 0 for none.
    """

    load: OpenLoad
    drawing: ProgramDraw
    open_engine: OpenEngine
    stack: ExitStack
    opened: tuple[SchedulerConfig, int] | None = None
    plays: int = 0
    draws: tuple[LoadDraw, ...] = ()
    alone: dict[str, PlayedProgram] = field(default_factory=dict)
    lasts_s: dict[RateProbe, float] = field(default_factory=dict)
    limits: SiteLimits = field(default_factory=dict)
    steps: list[StepSample] = field(default_factory=list)
    longest: int = 0

    def all(self) -> list[PlayedProgram]:
        """Every program of every draw, played alone."""
        return [self.alone[program.name] for draw in self.draws for program in draw.programs]

    def draw_programs(self) -> None:
        """Draw programs until the largest request fits the memory that there will be."""
        load = self.load
        for again in range(1, _DRAWS + 1):
            self.draws = load_draws(
                load.draws, load.programs, self.drawing, load.tenants, self.longest
            )
            self.limits = limits_of(load, self.drawing, self.draws)
            self._play_alone()
            tokens = load.kv_share * mean([self._guess_tokens(draw) for draw in self.draws])
            largest = largest_tokens(self.draws)
            if not load.kv_share or tokens >= ROOM * largest or again == _DRAWS:
                return
            self.longest = int(_SHORTER * tokens / ROOM)
            log(
                f"a share of {load.kv_share:g} is about {tokens:.0f} tokens and does not hold a "
                f"request of {largest}: longer programs are scaled down until all have at most "
                f"{self.longest}"
            )

    def measure(self, rate: float, kv_tokens: int) -> RateProbe:
        """Play every draw at a rate with so much memory; for memory, the first without a gate."""
        for_memory = bool(self.load.kv_share) and kv_tokens == ENOUGH_KV_TOKENS
        scheduler = PLAIN if for_memory else arms_named(BASELINE)[0].scheduler
        draws = self.draws[:1] if for_memory else self.draws
        if self.opened != (scheduler, kv_tokens) and not for_memory:
            warm = warm_draw(self.load, self.drawing, self.draws).arriving(rate)
            self._play(Round("warm", warm, self.drawing.spell), scheduler, kv_tokens)
        played = [
            self._play(
                Round("probe", draw.arriving(rate), self.drawing.spell), scheduler, kv_tokens
            )
            for draw in draws
        ]
        slow = [one.latency_s / self.alone[one.name].latency_s for one in counted(played)]
        working_set = mean([self._working_set(one) for one in played])
        probe = RateProbe(rate, kv_tokens, mean(slow), working_set)
        lasts_s = mean([max(one.ended_s for one in samples) for samples in played])
        self.lasts_s[probe] = lasts_s
        name = scheduler.policy if for_memory else BASELINE
        log(
            f"{name} at {rate:.3g} programs a second with {kv_tokens} tokens of KV: mean slowdown "
            f"{probe.slowdown:.1f}, working set {working_set:.0f} tokens, {lasts_s:.0f} s a draw"
        )
        return probe

    def _play(
        self, one: Round, scheduler: SchedulerConfig = PLAIN, kv_tokens: int = ENOUGH_KV_TOKENS
    ) -> Sequence[PlayedProgram]:
        """Play a round; every play has text of its own."""
        if self.opened != (scheduler, kv_tokens):
            self.stack.close()
            self._engine = self.open_engine(scheduler, kv_tokens, self.stack)
            self.opened = (scheduler, kv_tokens)
        self.plays += 1
        found, steps = self._engine(replace(one, text=str(self.plays), limits=self.limits))
        self.steps += steps
        return found

    def _play_alone(self) -> None:
        fresh = [
            program
            for draw in self.draws
            for program in draw.programs
            if program.name not in self.alone or program.name in draw.shortened
        ]
        log(f"playing {len(fresh)} programs alone")
        self._play(Round("warm", one_by_one(fresh[:1]), self.drawing.spell))
        for program in fresh:
            alone = Round("alone", one_by_one([program]), self.drawing.spell)
            (self.alone[program.name],) = self._play(alone)

    def _working_set(self, samples: Sequence[PlayedProgram]) -> float:
        """Mean tokens of the programs under way, from the first arrival to the last end."""
        token_s = sum(self._kept(one) * (one.ended_s - one.arrived_s) for one in samples)
        began_s = min(one.arrived_s for one in samples)
        return token_s / (max(one.ended_s for one in samples) - began_s)

    def _guess_tokens(self, draw: LoadDraw) -> float:
        """The working set if each program waits equally long, and the slowdown is as wanted."""
        alone = [self.alone[program.name] for program in draw.programs]
        slower = mean([1 / one.latency_s for one in alone])
        wait_s = (self.load.slowdown - 1) / slower
        span_s = max(wait_s, sum(one.service_s for one in alone) / _GAIN)
        lives = [min(span_s, one.latency_s + wait_s) * self._kept(one) for one in alone]
        return sum(lives) / span_s

    def _kept(self, one: PlayedProgram) -> float:
        return self.alone[one.name].kept_tokens or 0.0

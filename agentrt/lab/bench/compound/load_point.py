"""The operating point of an open load: programs that fit, memory, and a rate, by playing them.

All of it is found on our engine, served first come first served and without an admission gate, as
an engine does that knows requests only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from agentrt.analysis.statistics import mean
from agentrt.base.record import record
from agentrt.lab.arms.served import PAGE_TOKENS
from agentrt.lab.bench.compound.figures import PlayedProgram
from agentrt.lab.bench.compound.load_draw import LoadDraw, largest_tokens, load_draw
from agentrt.lab.bench.compound.load_figures import counted
from agentrt.lab.bench.compound.plan import ProgramDraw, Round
from agentrt.lab.operating_point import OperatingPoint, RateProbe, RateSearch, operating_point
from agentrt.lab.progress import log
from agentrt.lab.workloads.arrivals import one_by_one
from agentrt.lab.workloads.trace import ProgramTrace

ENOUGH_KV_TOKENS = 32_768
ROOM = 1.1
"""Least memory divided by the longest request: an engine keeps pages for other things, too."""
_SHORTER = 0.7  # requests are made to fit with this to spare, as the working set is a guess then
_DRAWS = 3
_SEARCH = RateSearch(near=0.15, factor=1.6, most_halvings=6, most_probes=6)
_GAIN = 1.5  # of a batch, roughly
_FIRST = 2.5  # first rate of the search, divided by that of programs one after the other


@record
class OpenLoad:
    """An open load as asked for.

    Attributes:
        rate: Programs a second; 0 finds the rate at which a plain engine is slow.
        slowdown: Slowdown of that engine there, mean over programs.
        programs: Programs of each draw.
        draws: Number of draws.
        kv_share: Memory divided by the working set of the mix; 0 gives enough.
        tenants: Tenants among whom programs are dealt out.
    """

    rate: float
    slowdown: float
    programs: int
    draws: int
    kv_share: float
    tenants: int


PlainEngine: TypeAlias = Callable[[int, ExitStack], Callable[[Round], Sequence[PlayedProgram]]]
"""Opens a plain engine with so many tokens of KV memory; the stack closes it."""


@record
class LoadPoint:
    """The programs and the operating point of a load.

    Attributes:
        draws: Programs of each draw.
        alone: By name, each of them played alone with enough memory.
        point: Memory and rate; the same rate for all draws.
        lasts_s: By probe, seconds from the beginning of a draw to its last program's end.
    """

    draws: tuple[LoadDraw, ...]
    alone: Mapping[str, PlayedProgram]
    point: OperatingPoint
    lasts_s: Mapping[RateProbe, float]

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
    def service_s(self) -> dict[str, float]:
        """Seconds of an engine, by name."""
        return {name: one.service_s for name, one in self.alone.items()}

    @property
    def working_set_tokens(self) -> float:
        """Working set of the mix."""
        ample = self.point.ample
        return ample.working_set_tokens if ample is not None else 0.0

    @property
    def kv_share(self) -> float:
        """Memory divided by the working set of the mix."""
        return self.point.kv_tokens / (self.working_set_tokens or 1.0)


def find_load_point(load: OpenLoad, drawing: ProgramDraw, open_plain: PlainEngine) -> LoadPoint:
    """Draw programs, play them alone, find memory and rate.

    Args:
        load: The load as asked for.
        drawing: How programs are drawn.
        open_plain: Opens a plain engine.

    Raises:
        UsageError: Programs cannot be made to fit.
        BenchFailed: The engine failed.
    """
    with ExitStack() as stack:
        plays = _PlainPlays(load, drawing, open_plain, stack)
        plays.draw_programs()
        services_s = [one.service_s for one in plays.all()]
        if not load.rate:
            most_s = sum(services_s) / _GAIN * 2 * _SEARCH.most_probes
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
    return LoadPoint(plays.draws, plays.alone, point, plays.lasts_s)


@dataclass
class _PlainPlays:
    """Plays on the plain engine, which is opened anew for another memory.

    Attributes:
        load: The load as asked for.
        drawing: How programs are drawn.
        open_plain: Opens a plain engine.
        stack: Closes it.
        kv_tokens: Memory of the engine that is open; 0 if none is.
        plays: Number of plays so far.
        draws: The programs.
        alone: By name, each of them played alone.
        lasts_s: By probe, mean seconds to the end of a draw.
    """

    load: OpenLoad
    drawing: ProgramDraw
    open_plain: PlainEngine
    stack: ExitStack
    kv_tokens: int = 0
    plays: int = 0
    draws: tuple[LoadDraw, ...] = ()
    alone: dict[str, PlayedProgram] = field(default_factory=dict)
    lasts_s: dict[RateProbe, float] = field(default_factory=dict)

    def all(self) -> list[PlayedProgram]:
        """Every program of every draw, played alone."""
        return [self.alone[program.name] for draw in self.draws for program in draw.programs]

    def draw_programs(self) -> None:
        """Draw programs until the largest request fits the memory that there will be."""
        load, longest = self.load, 0
        for again in range(1, _DRAWS + 1):
            self.draws = tuple(
                load_draw(at, load.programs, self.drawing, tenants=load.tenants, longest=longest)
                for at in range(load.draws)
            )
            self._play_alone()
            tokens = load.kv_share * mean([self._guess_tokens(draw) for draw in self.draws])
            largest = largest_tokens(self.draws)
            if not load.kv_share or tokens >= ROOM * largest or again == _DRAWS:
                return
            longest = int(_SHORTER * tokens / ROOM)
            log(
                f"a share of {load.kv_share:g} is about {tokens:.0f} tokens and does not hold a "
                f"request of {largest}: longer programs are scaled down until all have at most "
                f"{longest}"
            )

    def measure(self, rate: float, kv_tokens: int) -> RateProbe:
        """Play every draw at a rate with so much memory."""
        played = [
            self._play(Round("probe", draw.arriving(rate), self.drawing.spell), kv_tokens)
            for draw in self.draws
        ]
        slow = [one.latency_s / self.alone[one.name].latency_s for one in counted(played)]
        working_set = mean([self._working_set(one) for one in played])
        probe = RateProbe(rate, kv_tokens, mean(slow), working_set)
        lasts_s = mean([max(one.ended_s for one in samples) for samples in played])
        self.lasts_s[probe] = lasts_s
        log(
            f"fcfs at {rate:.3g} programs a second with {kv_tokens} tokens of KV: mean slowdown "
            f"{probe.slowdown:.1f}, working set {working_set:.0f} tokens, {lasts_s:.0f} s a draw"
        )
        return probe

    def _play(self, one: Round, kv_tokens: int = ENOUGH_KV_TOKENS) -> Sequence[PlayedProgram]:
        """Play a round; every play has text of its own."""
        if kv_tokens != self.kv_tokens:
            self.stack.close()
            self._engine = self.open_plain(kv_tokens, self.stack)
            self.kv_tokens = kv_tokens
        self.plays += 1
        return self._engine(replace(one, text=str(self.plays)))

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

"""Where a load is measured: programs, memory and a rate at which a plain engine is slow.

All of it is found on the engine itself, served first come first served and without an admission
gate, as an engine does that knows requests only. Memory is a share of the mix's working set: what
the programs under way keep where that engine is so slow with all the memory that they want. With
that memory it is so slow at a lower rate, which is found next; the set is not taken anew there, as
memory and rate would then shrink together (as in `agentrt.lab.operating_point`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeAlias

from agentrt.analysis.statistics import mean
from agentrt.lab.bench.compound.figures import PlayedProgram
from agentrt.lab.bench.compound.load_draw import LoadDraw, largest_tokens, load_draw
from agentrt.lab.bench.compound.load_figures import counted
from agentrt.lab.bench.compound.plan import ProgramDraw, Round
from agentrt.lab.bench.compound.rate import find_rate
from agentrt.lab.bench.engine.points import PAGE_TOKENS
from agentrt.lab.workloads.arrivals import one_by_one

ENOUGH_KV_TOKENS = 32_768
ROOM = 1.1
"""Memory by the longest request, at the least: what else an engine keeps pages for."""
_SHORTER = 0.7  # requests are made to fit with this to spare, as the working set is a guess then
_DRAWS = 3
_LOOKS, _LOOKS_AGAIN = 6, 5  # at rates, with enough memory and with a share
_GAIN = 1.5  # of a batch, roughly
_FIRST = 2.5  # the rate that the search begins with, by that of programs one after the other

PlayRound: TypeAlias = Callable[[Round], list[PlayedProgram]]
OpenPlain: TypeAlias = Callable[[int], AbstractContextManager[PlayRound]]
"""A plain engine with so many tokens of KV memory."""
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class OpenLoad:
    """An open load as asked for.

    Attributes:
        rate: Programs a second; 0 finds the one at which a plain engine is slow.
        slowdown: That it then has, mean over programs.
        programs: Of each draw.
        draws: How many.
        kv_share: Memory by the working set of the mix; 0 gives enough.
        tenants: Among whom programs are dealt out.
    """

    rate: float
    slowdown: float
    programs: int
    draws: int
    kv_share: float
    tenants: int


@dataclass(frozen=True, slots=True)
class RateProbe:
    """What a plain engine makes of a rate.

    Attributes:
        rate: Programs a second.
        kv_tokens: Of the engine.
        slowdown: Mean over programs.
        working_set_tokens: That the programs under way would keep, on average.
        lasts_s: From the beginning of a draw to its last program's end, on average.
    """

    rate: float
    kv_tokens: int
    slowdown: float
    working_set_tokens: float
    lasts_s: float


@dataclass(frozen=True, slots=True)
class Ground:
    """What was found.

    Attributes:
        draws: Programs of each.
        alone: By name, each of them played alone with enough memory.
        probe: At the rate, with the memory.
        ample: With enough memory, at the rate that makes it as slow; tells the working set.
        probes: All that were played.
        largest_tokens: Of all requests.
    """

    draws: tuple[LoadDraw, ...]
    alone: Mapping[str, PlayedProgram]
    probe: RateProbe
    ample: RateProbe
    probes: tuple[RateProbe, ...]
    largest_tokens: int

    @property
    def alone_s(self) -> dict[str, float]:
        """By name, the latency alone."""
        return {name: one.latency_s for name, one in self.alone.items()}

    @property
    def kv_share(self) -> float:
        """Memory by the working set of the mix."""
        return self.probe.kv_tokens / (self.ample.working_set_tokens or 1.0)

    @property
    def service_s(self) -> dict[str, float]:
        """By name, what it takes of an engine."""
        return {name: one.latency_s - one.tools_s for name, one in self.alone.items()}


def find_ground(load: OpenLoad, drawing: ProgramDraw, open_plain: OpenPlain, tell: Tell) -> Ground:
    """Draw programs, play them alone, find rate and memory.

    Args:
        load: As asked for.
        drawing: Of programs.
        open_plain: Opens a plain engine.
        tell: Called with what is being done.

    Raises:
        UsageError: Programs cannot be made to fit.
        BenchFailed: The engine failed.
    """
    search = _RateSearch(load, drawing, open_plain, tell)
    search.draw_programs()
    search.find()
    return search.found()


class _RateSearch:
    def __init__(
        self, load: OpenLoad, drawing: ProgramDraw, open_plain: OpenPlain, tell: Tell
    ) -> None:
        self._load = load
        self._drawing = drawing
        self._open_plain = open_plain
        self._tell = tell
        self._draws: tuple[LoadDraw, ...] = ()
        self._alone: dict[str, PlayedProgram] = {}
        self._probes: list[RateProbe] = []
        self._best: list[RateProbe] = []
        self._plays = 0

    def found(self) -> Ground:
        largest = largest_tokens(self._draws)
        ample, probe = self._best[0], self._best[-1]
        return Ground(self._draws, self._alone, probe, ample, tuple(self._probes), largest)

    def draw_programs(self) -> None:
        """Programs whose largest request fits the memory that there will be."""
        longest = 0
        with self._open_plain(ENOUGH_KV_TOKENS) as play:
            for at_draw in range(1, _DRAWS + 1):
                self._draws = tuple(
                    load_draw(
                        number,
                        self._load.programs,
                        self._drawing,
                        tenants=self._load.tenants,
                        longest=longest,
                    )
                    for number in range(self._load.draws)
                )
                self._play_alone(play)
                tokens = self._load.kv_share * self._guess_tokens()
                largest = largest_tokens(self._draws)
                if not self._load.kv_share or tokens >= ROOM * largest or at_draw == _DRAWS:
                    break
                longest = int(_SHORTER * tokens / ROOM)
                self._tell(
                    f"a share of {self._load.kv_share:g} is about {tokens:.0f} tokens and does not "
                    f"hold a request of {largest}: longer programs are scaled down until all "
                    f"have at most {longest}"
                )

    def find(self) -> None:
        """The working set, then the rate with a share of it."""
        rate = self._load.rate or _FIRST / mean([self._service_s(one) for one in self._all()])
        if not self._load.rate:
            plays_s = sum(self._service_s(one) for one in self._all()) / _GAIN
            most_s = plays_s * (_LOOKS + _LOOKS_AGAIN)
            self._tell(f"looking for the rate: at most about {most_s / 60:.0f} minutes")
        ample = self._with_memory(ENOUGH_KV_TOKENS, rate, _LOOKS)
        self._best.append(ample)
        if self._load.kv_share:
            kv_tokens = self._memory(ample.working_set_tokens)
            self._best.append(self._with_memory(kv_tokens, ample.rate, _LOOKS_AGAIN))

    def _with_memory(self, kv_tokens: int, rate: float, most_looks: int) -> RateProbe:
        probes: dict[float, RateProbe] = {}
        with self._open_plain(kv_tokens) as play:

            def look(rate: float) -> float:
                probes[rate] = self._look(play, rate, kv_tokens)
                return probes[rate].slowdown

            if self._load.rate:
                look(rate)
                return probes[rate]
            best, _ = find_rate(look, rate, self._load.slowdown, most_looks=most_looks)
        return probes[best.rate]

    def _look(self, play: PlayRound, rate: float, kv_tokens: int) -> RateProbe:
        rounds = [self._round(draw, rate) for draw in self._draws]
        played = [play(one) for one in rounds]
        slow = [one.latency_s / self._alone[one.name].latency_s for one in counted(played)]
        sets = [self._working_set(one) for one in played]
        ends = [max(one.ended_s for one in samples) for samples in played]
        probe = RateProbe(rate, kv_tokens, mean(slow), mean(sets), mean(ends))
        self._probes.append(probe)
        self._tell(
            f"fcfs at {rate:.3g} programs a second with {kv_tokens} tokens of KV: mean slowdown "
            f"{probe.slowdown:.1f}, working set {probe.working_set_tokens:.0f} tokens, "
            f"{probe.lasts_s:.0f} s a draw"
        )
        return probe

    def _round(self, draw: LoadDraw, rate: float) -> Round:
        self._plays += 1
        workload = draw.arriving(rate)
        return Round("probe", workload, self._drawing.spell, counts=True, text=str(self._plays))

    def _working_set(self, samples: Sequence[PlayedProgram]) -> float:
        """Of the programs under way, from the first arrival to the last end, on average."""
        token_s = sum(self._kept(one) * (one.ended_s - one.arrived_s) for one in samples)
        began_s = min(one.arrived_s for one in samples)
        return token_s / (max(one.ended_s for one in samples) - began_s)

    def _play_alone(self, play: PlayRound) -> None:
        fresh = [
            program
            for draw in self._draws
            for program in draw.programs
            if program.name not in self._alone or program.name in draw.shortened
        ]
        self._tell(f"playing {len(fresh)} programs alone")
        first = self._drawing.round("warm", one_by_one([fresh[0]]))
        play(first)
        for program in fresh:
            self._plays += 1
            workload = one_by_one([program])
            one = Round("alone", workload, self._drawing.spell, True, text=str(self._plays))
            (self._alone[program.name],) = play(one)

    def _guess_tokens(self) -> float:
        """The working set where each program waits equally long, and the slowdown is as wanted."""
        found = []
        for draw in self._draws:
            alone = [self._alone[program.name] for program in draw.programs]
            slower = mean([1 / one.latency_s for one in alone])
            wait_s = (self._load.slowdown - 1) / slower
            span_s = max(wait_s, sum(self._service_s(one) for one in alone) / _GAIN)
            lives = [min(span_s, one.latency_s + wait_s) * self._kept(one) for one in alone]
            found.append(sum(lives) / span_s)
        return mean(found)

    def _kept(self, one: PlayedProgram) -> float:
        return self._alone[one.name].kept_tokens or 0.0

    def _service_s(self, one: PlayedProgram) -> float:
        return one.latency_s - one.tools_s

    def _all(self) -> list[PlayedProgram]:
        return [self._alone[program.name] for draw in self._draws for program in draw.programs]

    def _memory(self, working_set_tokens: float) -> int:
        """The share of it, and at least what the largest request needs."""
        wanted = self._load.kv_share * working_set_tokens
        return _pages(max(wanted, ROOM * largest_tokens(self._draws)))


def _pages(tokens: float) -> int:
    return int(tokens) // PAGE_TOKENS * PAGE_TOKENS

"""A mix of programs, drawn from seeds, on a simulated engine at a rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from random import Random
from typing import Any

import numpy as np

from agentrt.analysis.statistics import Floats, jain
from agentrt.base.config import SchedulerConfig
from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.lab.operating_point import (
    OperatingPoint,
    RateProbe,
    RateSearch,
    operating_point,
)
from agentrt.lab.progress import WorkPace
from agentrt.lab.sim.alone import AMPLE_TOKENS, ample, played_alone
from agentrt.lab.sim.arms import SimArm, arms_named
from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.outcome import ProgramOutcome, SimulationOutcome
from agentrt.lab.sim.runs_counted import RunsCounted
from agentrt.lab.sim.service import service_of
from agentrt.lab.sim.simulation import Setup, Simulation
from agentrt.lab.sim.token_ids import MESSAGE_TOKENS
from agentrt.lab.sim.true_kv_need import TrueKvNeed
from agentrt.lab.workloads import ProgramTrace, Workload
from agentrt.lab.workloads.arrivals import bursty, poisson
from agentrt.lab.workloads.mixes import OPEN_MIX, mix
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.trace import prompt_tokens
from agentrt.scheduler.estimates.estimates import Estimates

WARM_SHARE = 0.1
"""Share of the programs that do not count: the first."""

_BUSY_SHARE = 0.7
_MOST_RATES = 50


@record
class Mixed:
    """A mix of programs.

    Attributes:
        programs: Programs of a seed.
        shares: Share of each shape.
        scale: Scale of lengths and times.
        tenants: Number of tenants, which share the programs.
        bursts: Deviation of the gaps between arrivals by their mean, above 1; 0 for independent
            arrivals.
    """

    programs: int = 300
    shares: Mapping[str, float] = field(default_factory=lambda: OPEN_MIX)
    scale: Scale = field(default_factory=lambda: Scale(context=0.25, think=0.1))
    tenants: int = 1
    bursts: float = 0.0

    def drawn(self, seed: int) -> tuple[ProgramTrace, ...]:
        """The programs of a seed."""
        random = Random(f"mix {seed}")
        return mix(self.programs, random, self.scale, self.shares, tenants=self.tenants)

    def arriving(self, programs: Sequence[ProgramTrace], rate: float, seed: str) -> Workload:
        """The programs at a rate in programs a second.

        Raises:
            UsageError: The rate or the bursts are out of range.
        """
        random = Random(seed)
        if self.bursts:
            return bursty(programs, rate, random, self.bursts)
        return poisson(programs, rate, random)


_FIGURES = (
    *("rate", "mean_latency_s", "p99_latency_s", "mean_slowdown", "p99_slowdown"),
    *("busy", "cache_hit", "host_hit", "copying", "fairness", "steps", "working_set_tokens"),
)


@record
class StudyPoint:
    """Figures of one arm at one rate with one seed, without the first programs.

    Attributes:
        arm: Name of the arm.
        rate: Programs a second.
        seed: Seed of the draws.
        latency_s: `[programs]`.
        slowdown: `[programs]` latency divided by that of the same program alone.
        busy: Share of the time in which the engine had work.
        cache_hit: Share of prompt tokens found in the cache.
        host_hit: Share of prompt tokens loaded back from the host.
        copying: Share of the time in which the engine copied to its host or back.
        sums: Mean seconds and tokens of a program, by name.
        fairness: Jain's index over tenants' mean slowdowns.
        steps: Steps of the engine.
        working_set_tokens: KV tokens that the programs in progress would keep, on average over
            the time of arrivals.
        memory: Account of the KV memory over the time of steps, by name; empty if none is kept.
    """

    arm: str
    rate: float
    seed: int
    latency_s: Floats
    slowdown: Floats
    busy: float
    cache_hit: float
    host_hit: float
    copying: float
    sums: dict[str, float]
    fairness: float
    steps: int
    working_set_tokens: float
    memory: dict[str, float]

    @property
    def mean_latency_s(self) -> float:
        """Mean latency of a program."""
        return float(self.latency_s.mean())

    @property
    def p99_latency_s(self) -> float:
        """The 99th percentile of latencies."""
        return float(np.quantile(self.latency_s, 0.99))

    @property
    def mean_slowdown(self) -> float:
        """Mean slowdown of a program."""
        return float(self.slowdown.mean())

    @property
    def p99_slowdown(self) -> float:
        """The 99th percentile of slowdowns."""
        return float(np.quantile(self.slowdown, 0.99))

    def figures(self) -> dict[str, Any]:
        """Figures for files and tables."""
        return {name: getattr(self, name) for name in _FIGURES}

    def in_words(self) -> str:
        """The point in a line of text."""
        host = f" ({self.host_hit:.2f} from the host)" if self.host_hit else ""
        return (
            f"mean {self.mean_latency_s:.2f} s, slowdown {self.mean_slowdown:.2f}, "
            f"p99 {self.p99_slowdown:.1f}, cache {self.cache_hit:.2f}{host}, busy {self.busy:.2f}"
        )


@record
class AloneLatencies:
    """Programs that each have an engine alone.

    Attributes:
        latency_s: `[programs]` latencies.
        kept_tokens: `[programs]` KV tokens that a program keeps, on average over its life.
        kv_needs: True KV need of each program, by name.
    """

    latency_s: Floats
    kept_tokens: Floats
    kv_needs: Mapping[str, TrueKvNeed]


class Study:
    """A mix on one simulated engine; keeps programs, latencies alone and estimates.

    Args:
        costs: Costs of the engine.
        mixed: The programs.
        setup: Other settings of the engine; its costs, memory and scheduler are set here.
        warm: True to begin with estimates learned from the programs of another seed.
        log: Called with the progress of runs that take long.

    Attributes:
        mixed: The programs.
    """

    def __init__(
        self,
        costs: SimCosts,
        mixed: Mixed,
        setup: Setup | None = None,
        *,
        warm: bool = True,
        log: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._log = log
        self._setup = replace(setup or Setup(costs, 0), costs=costs)
        self.mixed = mixed
        self._warm = warm
        self._programs: dict[int, tuple[ProgramTrace, ...]] = {}
        self._alone: dict[int, AloneLatencies] = {}
        self._learned: Estimates | None = None

    def programs(self, seed: int) -> tuple[ProgramTrace, ...]:
        """The programs of a seed."""
        if seed not in self._programs:
            self._programs[seed] = self.mixed.drawn(seed)
        return self._programs[seed]

    def largest_tokens(self, seed: int) -> int:
        """KV tokens of the largest request among a seed's programs."""
        return max(
            MESSAGE_TOKENS * (len(call.prompt) + 1) + tokens + call.output_tokens
            for program in self.programs(seed)
            for call, tokens in zip(program.calls(), prompt_tokens(program).values(), strict=True)
        )

    def alone(self, seed: int) -> AloneLatencies:
        """Each program of a seed with an engine and memory of its own, cold."""
        if seed not in self._alone:
            played = {}
            pace = WorkPace("programs alone", self.mixed.programs, self._log)
            for one in self.programs(seed):
                played[one.name] = played_alone(one, self._setup)
                pace.done()
            found = [one.outcome for one in played.values()]
            needs = {name: one.kv for name, one in played.items()}
            latency_s = np.array([one.latency_s for one in found])
            kept = np.array([one.kept_token_s for one in found]) / np.maximum(latency_s, 1e-9)
            self._alone[seed] = AloneLatencies(latency_s, kept, needs)
        return self._alone[seed]

    @property
    def full_rate(self) -> float:
        """Programs a second that keep the engine fully busy, roughly."""
        step = self._setup.costs.step
        services = [sum(service_of(one, step).values()) for one in self.programs(0)]
        return len(services) / sum(services)

    def point(self, arm: SimArm, rate: float, seed: int, kv_tokens: int) -> StudyPoint:
        """Run an arm at a rate with the programs and arrivals of a seed.

        Raises:
            OutOfPages: A program does not fit the memory.
        """
        outcome = self._run(seed, rate, arm.scheduler, kv_tokens)
        alone = self.alone(seed)
        warm = int(WARM_SHARE * len(outcome.programs))
        counted = outcome.programs[warm:]
        latency_s = np.array([one.latency_s for one in counted])
        slowdown = latency_s / alone.latency_s[warm:]
        (engine,) = outcome.engines
        prompt_tokens = sum(one.prompt_tokens for one in counted)
        submitted_s = np.array([one.submitted_at_s for one in outcome.programs])
        finished_s = np.array([one.finished_at_s for one in outcome.programs])
        first_s, last_s = submitted_s[warm], submitted_s.max()
        span_s = outcome.ended_at_s - float(submitted_s.min())
        under_way_s = np.minimum(finished_s, last_s) - np.maximum(submitted_s, first_s)
        working_token_s = float(np.sum(alone.kept_tokens * np.maximum(under_way_s, 0.0)))
        return StudyPoint(
            arm.name,
            rate,
            seed,
            latency_s,
            slowdown,
            busy=engine.busy_s / span_s,
            cache_hit=sum(one.cached_tokens for one in counted) / max(1, prompt_tokens),
            host_hit=sum(one.cached_host_tokens for one in counted) / max(1, prompt_tokens),
            copying=engine.copied_s / span_s,
            sums={name: _mean(counted, name) for name in SUMMED},
            fairness=_fairness(counted, slowdown),
            steps=engine.steps,
            working_set_tokens=working_token_s / max(float(last_s - first_s), 1e-9),
            memory=outcome.memory[0] if outcome.memory else {},
        )

    def operating_point(
        self,
        *,
        kv_share: float,
        slowdown: float,
        seeds: int = 1,
        rate: float = 0.0,
        kv_tokens: int = 0,
        log: Callable[[str], None] = lambda text: None,
    ) -> OperatingPoint:
        """The memory, and a rate for each seed at which `fcfs` has a mean slowdown.

        Args:
            kv_share: Memory divided by the working set.
            slowdown: Mean slowdown of `fcfs`.
            seeds: Number of draws.
            rate: Programs a second; 0 searches the rate.
            kv_tokens: Memory; 0 takes the share of the working set.
            log: Called with each probe.

        Raises:
            UsageError: There is no such point, because there are too few programs.
        """
        if not kv_share > 0 or not slowdown > 1 or rate < 0 or kv_tokens < 0:
            raise UsageError(
                f"a memory share of {kv_share} and a slowdown of {slowdown} are no point",
                hint="Give a share above 0 and a slowdown above 1: --kv-share 0.33 --slowdown 10",
            )
        (fcfs,) = arms_named("fcfs")

        def measure(seed: int, rate: float, kv_tokens: int) -> RateProbe:
            point = self.point(fcfs, rate, seed, kv_tokens)
            log(
                f"seed {seed}, {rate:.4g}/s, {kv_tokens} tokens of KV: slowdown "
                f"{point.mean_slowdown:.2f}, working set {point.working_set_tokens:.0f}"
            )
            return RateProbe(rate, kv_tokens, point.mean_slowdown, point.working_set_tokens)

        largest = max(self.largest_tokens(seed) for seed in range(seeds))
        return operating_point(
            [partial(measure, seed) for seed in range(seeds)],
            RateSearch(
                near=0.05, factor=1.4, most_halvings=6, most_rate=_MOST_RATES * self.full_rate
            ),
            first_rate=self.full_rate,
            slowdown=slowdown,
            kv_share=kv_share,
            ample_tokens=AMPLE_TOKENS,
            least_tokens=16 * (largest // 16 + 2),
            rate=rate,
            kv_tokens=kv_tokens,
        )

    def _run(
        self, seed: int, rate: float, scheduler: SchedulerConfig, kv_tokens: int
    ) -> SimulationOutcome:
        setup = replace(self._setup, kv_tokens=kv_tokens, scheduler=scheduler, hides_lengths=True)
        workload = self.mixed.arriving(self.programs(seed), rate, f"arrivals {seed}")
        needs = self.alone(seed).kv_needs
        return Simulation(setup, self._estimates(), needs, [self._counted()]).run(workload)

    def _counted(self) -> RunsCounted:
        return RunsCounted(WorkPace("programs served", self.mixed.programs, self._log))

    def _estimates(self) -> Estimates:
        """Estimates learned from another seed's programs, as a copy."""
        if not self._warm:
            return Estimates()
        if self._learned is None:
            self._learned = Estimates()
            setup = ample(self._setup)
            rate = _BUSY_SHARE * self.full_rate
            workload = self.mixed.arriving(self.mixed.drawn(-1), rate, "arrivals before")
            Simulation(setup, self._learned, observers=[self._counted()]).run(workload)
        return Estimates(self._learned.rows())


SUMMED = (
    *("held_s", "queue_s", "hole_s", "kv_reload_s", "prefill_s", "decode_s", "tool_s"),
    *("prompt_tokens", "cached_tokens", "output_tokens", "recomputed_tokens", "wasted_tokens"),
    *("preemptions", "joined"),
)


def _mean(programs: list[ProgramOutcome], name: str) -> float:
    return sum(float(getattr(one, name)) for one in programs) / len(programs)


def _fairness(programs: list[ProgramOutcome], slowdown: Floats) -> float:
    by_tenant: dict[str, list[float]] = {}
    for one, value in zip(programs, slowdown.tolist(), strict=True):
        by_tenant.setdefault(one.tenant, []).append(value)
    return jain([sum(values) / len(values) for values in by_tenant.values()])

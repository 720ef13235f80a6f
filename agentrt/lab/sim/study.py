"""One mix of programs, drawn from seeds, and what a simulated engine makes of it at a rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np
from numpy.typing import NDArray

from agentrt.analysis.statistics import jain
from agentrt.base.config import SchedulerConfig
from agentrt.lab.sim.arms import SimArm
from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.outcome import ProgramOutcome, SimulationOutcome
from agentrt.lab.sim.service import service_of
from agentrt.lab.sim.simulation import Setup, Simulation
from agentrt.lab.sim.token_ids import MESSAGE_TOKENS
from agentrt.lab.workloads import Arrival, ProgramTrace, Workload
from agentrt.lab.workloads.arrivals import bursty, poisson
from agentrt.lab.workloads.mixes import OPEN_MIX, mix
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.trace import prompt_tokens
from agentrt.scheduler.estimates.estimates import Estimates

Floats = NDArray[np.float64]

WARM_SHARE = 0.1
"""Of the programs, the first, that do not count."""

AMPLE_TOKENS = 1 << 20
"""KV memory that no mix fills."""

_BUSY_SHARE = 0.7
_PLAIN = SchedulerConfig(policy="fcfs", gate_share=0.0, retention=False)


@dataclass(frozen=True, slots=True)
class Mixed:
    """A mix to be studied.

    Attributes:
        programs: How many a seed.
        shares: Of each shape.
        scale: Of lengths and times.
        tenants: Among whom they are dealt out.
        bursts: Deviation of the gaps between arrivals by their mean, above 1; 0 lets programs
            arrive without knowing of each other.
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
        """These programs, so many a second.

        Raises:
            UsageError: The rate is not positive, or the bursts are none.
        """
        random = Random(seed)
        if self.bursts:
            return bursty(programs, rate, random, self.bursts)
        return poisson(programs, rate, random)


@dataclass(frozen=True, slots=True)
class StudyPoint:
    """One arm at one rate with one seed; the first programs do not count.

    Attributes:
        arm: Name of the arm.
        rate: Programs a second.
        seed: Of the draws.
        latency_s: `[programs]`.
        slowdown: `[programs]` latency by that of the same program alone.
        busy: Share of the time in which the engine had something to do.
        hit: Of the prompt tokens, the share that the cache knew.
        host_hit: Of the prompt tokens, the share that was brought back from the host.
        copying: Share of the time in which the engine copied to its host or back.
        sums: Seconds and tokens of all programs, by name.
        fairness: Jain's index over tenants' mean slowdowns.
        steps: Of the engine.
        working_set_tokens: KV that the programs under way at once would keep, on average while
            programs came.
    """

    arm: str
    rate: float
    seed: int
    latency_s: Floats
    slowdown: Floats
    busy: float
    hit: float
    host_hit: float
    copying: float
    sums: dict[str, float]
    fairness: float
    steps: int
    working_set_tokens: float


@dataclass(frozen=True, slots=True)
class AloneLatencies:
    """Programs that have everything for themselves; both `[programs]`.

    Attributes:
        latency_s: Of each.
        kept_tokens: KV that each keeps, on average over its life.
    """

    latency_s: Floats
    kept_tokens: Floats


class Study:
    """Runs a mix on one simulated engine; what was computed once is kept.

    Args:
        costs: Of the engine.
        mixed: The programs.
        setup: What else the engine is; its costs, memory and scheduler are set here.
        warm: Whether estimates are learned from another seed's programs beforehand, as a runtime
            has them that has run for a while.
    """

    def __init__(
        self, costs: SimCosts, mixed: Mixed, setup: Setup | None = None, *, warm: bool = True
    ) -> None:
        self._setup = replace(setup or Setup(costs, 0), costs=costs)
        self._mixed = mixed
        self._warm = warm
        self._programs: dict[int, tuple[ProgramTrace, ...]] = {}
        self._alone: dict[int, AloneLatencies] = {}
        self._learned: Estimates | None = None

    def programs(self, seed: int) -> tuple[ProgramTrace, ...]:
        """Those of a seed."""
        if seed not in self._programs:
            self._programs[seed] = self._mixed.drawn(seed)
        return self._programs[seed]

    def largest_tokens(self, seed: int) -> int:
        """KV of the largest request among a seed's programs."""
        return max(
            MESSAGE_TOKENS * (len(call.prompt) + 1) + tokens + call.output_tokens
            for program in self.programs(seed)
            for call, tokens in zip(program.calls(), prompt_tokens(program).values(), strict=True)
        )

    def alone(self, seed: int) -> AloneLatencies:
        """Each program of a seed with an engine and memory of its own, cold."""
        if seed not in self._alone:
            setup = self._ample()
            found = [
                Simulation(setup).run((Arrival(0.0, one),)).programs[0]
                for one in self.programs(seed)
            ]
            latency_s = np.array([one.latency_s for one in found])
            kept = np.array([one.kept_token_s for one in found]) / np.maximum(latency_s, 1e-9)
            self._alone[seed] = AloneLatencies(latency_s, kept)
        return self._alone[seed]

    @property
    def full_rate(self) -> float:
        """Programs a second at which the engine would be as busy as it can be, about."""
        step = self._setup.costs.step
        services = [sum(service_of(one, step).values()) for one in self.programs(0)]
        return len(services) / sum(services)

    def point(self, arm: SimArm, rate: float, seed: int, kv_tokens: int) -> StudyPoint:
        """One arm at one rate with one seed's programs and arrivals.

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
            engine.busy_s / span_s,
            sum(one.cached_tokens for one in counted) / max(1, prompt_tokens),
            sum(one.cached_host_tokens for one in counted) / max(1, prompt_tokens),
            engine.copied_s / span_s,
            {name: _mean(counted, name) for name in SUMMED},
            _fairness(counted, slowdown),
            engine.steps,
            working_token_s / max(float(last_s - first_s), 1e-9),
        )

    def _run(
        self, seed: int, rate: float, scheduler: SchedulerConfig, kv_tokens: int
    ) -> SimulationOutcome:
        setup = replace(self._setup, kv_tokens=kv_tokens, scheduler=scheduler)
        workload = self._mixed.arriving(self.programs(seed), rate, f"arrivals {seed}")
        return Simulation(setup, self._estimates()).run(workload)

    def _ample(self) -> Setup:
        """With all the memory that anybody wants, so that there is nothing for a host."""
        return replace(self._setup, kv_tokens=AMPLE_TOKENS, host_kv_tokens=0, scheduler=_PLAIN)

    def _estimates(self) -> Estimates:
        """What another seed's programs taught, as a copy."""
        if not self._warm:
            return Estimates()
        if self._learned is None:
            self._learned = Estimates()
            setup = self._ample()
            rate = _BUSY_SHARE * self.full_rate
            workload = self._mixed.arriving(self._mixed.drawn(-1), rate, "arrivals before")
            Simulation(setup, self._learned).run(workload)
        return Estimates(self._learned.rows())


SUMMED = (
    "held_s",
    "queue_s",
    "hole_s",
    "kv_reload_s",
    "prefill_s",
    "decode_s",
    "tool_s",
    "prompt_tokens",
    "cached_tokens",
    "output_tokens",
    "recomputed_tokens",
    "wasted_tokens",
    "preemptions",
    "joined",
)


def _mean(programs: list[ProgramOutcome], name: str) -> float:
    return sum(float(getattr(one, name)) for one in programs) / len(programs)


def _fairness(programs: list[ProgramOutcome], slowdown: Floats) -> float:
    by_tenant: dict[str, list[float]] = {}
    for one, value in zip(programs, slowdown.tolist(), strict=True):
        by_tenant.setdefault(one.tenant, []).append(value)
    return jain([sum(values) / len(values) for values in by_tenant.values()])

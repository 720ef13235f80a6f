"""The simulator against a real engine: the same programs at the same instants, policy by policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, groupby, pairwise
from statistics import median

import numpy as np

from agentrt.analysis.statistics import Interval, interval
from agentrt.base.config import PolicyName, SchedulerConfig
from agentrt.lab.sim.costs import Pace, SimCosts, StepWork
from agentrt.lab.sim.fluid.library import Floats
from agentrt.lab.sim.outcome import SimulationOutcome
from agentrt.lab.sim.ranking import Ranking, ranking_of
from agentrt.lab.sim.simulation import Setup, Simulation
from agentrt.lab.workloads import Workload

MOST_ERROR = 0.10
LEAST_TAU = 0.9

DRIFT_S = 0.5
"""A machine that others use as well changes its pace within a play, of some seconds."""

ENOUGH_STEPS = 20
"""Fewer do not tell a pace."""

Step = tuple[float, int, int, int, float, float | None, int]
"""Seconds of a step, prompt tokens, sequences that decoded, tokens whose KV was read, when it
began, seconds between the step before and it (None where the engine may have had nothing to do),
requests that waited."""

_NO_STEP: Step = (0.0, 0, 0, 0, 0.0, None, 0)

Terms = Mapping[str, float]
"""Sums over all programs of a play; those of `terms_of`."""


@dataclass(frozen=True, slots=True)
class PlayedWorkload:
    """What a real engine made of a workload.

    Attributes:
        latency_s: Compound latency of each program.
        steps: Of the engine, as far as it tells.
        terms: What the latencies are made of, as far as it tells.
    """

    latency_s: Sequence[float]
    steps: Sequence[Step] = ()
    terms: Terms = field(default_factory=dict)

    def pace(self, costs: SimCosts) -> Pace:
        """Time that its steps and gaps took by what they should have: how it was disturbed.

        Of steps without prompt tokens, for of the others it is not told who reads how much.
        """
        return _pace(list(pairwise((_NO_STEP, *self.steps))), costs, Pace())

    def drift(self, costs: SimCosts) -> list[tuple[float, Pace]]:
        """The same bit by bit: from which second of the play on it had which pace."""
        whole = self.pace(costs)
        found: list[tuple[float, Pace]] = []
        for bit, group in groupby(pairwise((_NO_STEP, *self.steps)), _bit_of):
            steps = list(group)
            pace = _pace(steps, costs, whole) if len(steps) >= ENOUGH_STEPS else whole
            found.append((max(0, bit) * DRIFT_S, pace))
        return [*found, (found[-1][0] + DRIFT_S, whole)] if found else []


Play = Callable[[Workload], PlayedWorkload]
"""Serves a workload on a real engine in real time."""


@dataclass(frozen=True, slots=True)
class ValidationCase:
    """One policy at one load.

    Attributes:
        policy: Which.
        rate: Programs a second.
        measured_s: `[repeats, programs]` on the engine.
        simulated_s: `[repeats, programs]` in the simulator, at the measured pace of each moment.
        unpaced_s: `[repeats, programs]` in the simulator, by the costs as they were calibrated.
        paces: Of each whole repeat: 1 where the machine was as when it was calibrated.
        terms: What the latencies are made of, measured and simulated.
    """

    policy: str
    rate: float
    measured_s: Floats
    simulated_s: Floats
    unpaced_s: Floats
    paces: tuple[Pace, ...]
    terms: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def error(self, share: float) -> Interval:
        """Of a percentile over programs: simulated by measured, less 1, of the middle repeat."""
        return _error(self.simulated_s, self.measured_s, share)

    def unpaced_error(self, share: float) -> Interval:
        """The same without regard to how the machine was disturbed."""
        return _error(self.unpaced_s, self.measured_s, share)

    @property
    def mean_error(self) -> float:
        """Of the mean."""
        return float(self.simulated_s.mean() / self.measured_s.mean() - 1)

    def repeat_error(self, share: float, *, paced: bool = False) -> float:
        """How far the engine is from itself: two of its repeats in a percentile, less 1.

        Args:
            share: Of programs below the percentile.
            paced: Each repeat by the pace of its steps.

        Returns:
            The middle over all pairs of repeats, the longer by the shorter; 0.0 of one repeat.
        """
        found = np.quantile(self.measured_s, share, axis=1)  # [repeats]
        if paced:
            found = found / [pace.step for pace in self.paces]
        apart = [max(pair) / min(pair) - 1 for pair in combinations(found.tolist(), 2)]
        return median(apart) if apart else 0.0


@dataclass(frozen=True, slots=True)
class Validation:
    """All cases.

    Attributes:
        cases: Of each load, all policies.
    """

    cases: Sequence[ValidationCase]

    @property
    def rankings(self) -> dict[float, Ranking]:
        """By rate, which policy has the lower mean latency, and whether both agree on that."""
        found = {}
        for rate in dict.fromkeys(case.rate for case in self.cases):
            here = [case for case in self.cases if case.rate == rate]
            found[rate] = ranking_of(
                {case.policy: case.measured_s for case in here},
                {case.policy: case.simulated_s for case in here},
            )
        return found

    def worst(self, share: float) -> float:
        """The largest error of a percentile, either way."""
        return max(abs(case.error(share).value) for case in self.cases)

    def within(self, share: float) -> int:
        """Cases whose percentile is simulated well enough."""
        return sum(abs(case.error(share).value) <= MOST_ERROR for case in self.cases)

    def repeats_within(self, share: float) -> int:
        """Cases of which one repeat of the engine tells another well enough."""
        return sum(case.repeat_error(share) <= MOST_ERROR for case in self.cases)


def validate(
    players: Mapping[PolicyName, Play],
    loads: Sequence[tuple[float, Workload]],
    setup: Setup,
    *,
    repeats: int = 1,
    tell: Callable[[str], None] = lambda text: None,
) -> Validation:
    """Serve every load by every policy, on the engine and in the simulator.

    A simulated runtime goes on from play to play as the real one does: what it has learned, of
    programs and of its engine, is known in the next. The first load is not counted. Policies take
    turns, repeat by repeat, so that what disturbs the machine disturbs all alike.

    Args:
        players: By policy, a real engine that serves by it.
        loads: Rates with their programs.
        setup: Of the simulated engine: as the real one.
        repeats: Of each load but the first.
        tell: Called with what was found.
    """
    twins = {policy: _Twins(policy, setup) for policy in players}
    cases: list[ValidationCase] = []
    for at, (rate, workload) in enumerate(loads):
        found: dict[PolicyName, list[_Repeat]] = {policy: [] for policy in players}
        for _ in range(repeats if at else 1):
            for policy, play in players.items():
                found[policy].append(twins[policy].play(play(workload), workload))
        if at:
            for policy, several in found.items():
                cases.append(_case(policy, rate, several))
                tell(line_of(cases[-1]))
    return Validation(cases)


@dataclass(frozen=True, slots=True)
class _Repeat:
    played: PlayedWorkload
    pace: Pace
    paced: SimulationOutcome
    unpaced: SimulationOutcome


class _Twins:
    """Two simulated runtimes beside a real one: at the pace of the machine, and as calibrated."""

    def __init__(self, policy: PolicyName, setup: Setup) -> None:
        setup = replace(setup, scheduler=SchedulerConfig(policy=policy))
        self._costs = setup.costs
        self._paced = Simulation(setup)
        self._unpaced = Simulation(setup)

    def play(self, played: PlayedWorkload, workload: Workload) -> _Repeat:
        """The programs that the real one has just served."""
        costs = self._costs
        drift = [(at_s, costs.paced(pace)) for at_s, pace in played.drift(costs)]
        paced = self._paced.run(workload, drift)
        return _Repeat(played, played.pace(costs), paced, self._unpaced.run(workload))


def _case(policy: PolicyName, rate: float, repeats: Sequence[_Repeat]) -> ValidationCase:
    simulated = [terms_of(one.paced) for one in repeats]
    told = [name for name in simulated[0] if all(name in one.played.terms for one in repeats)]
    return ValidationCase(
        policy,
        rate,
        np.array([one.played.latency_s for one in repeats]),
        np.array([[program.latency_s for program in one.paced.programs] for one in repeats]),
        np.array([[program.latency_s for program in one.unpaced.programs] for one in repeats]),
        tuple(one.pace for one in repeats),
        {
            name: (
                float(np.mean([one.played.terms[name] for one in repeats])),
                float(np.mean([terms[name] for terms in simulated])),
            )
            for name in told
        },
    )


def terms_of(outcome: SimulationOutcome) -> dict[str, float]:
    """What latencies are made of, summed over all programs.

    Steps of the engine, the prompt tokens and the tokens that they computed, the seconds that
    steps took; seconds from the declaration of each generation to its first token, and from there
    to its value; seconds of tools and people, and those for which the gate held a generation.
    """
    (engine,) = outcome.engines
    programs = outcome.programs
    return {
        "steps": engine.steps,
        "prefill_tokens": engine.prefill_tokens,
        "decode_tokens": engine.decode_tokens,
        "busy_s": engine.busy_s,
        "first_s": sum(one.first_s for one in programs),
        "rest_s": sum(one.rest_s for one in programs),
        "tool_s": sum(one.tool_s for one in programs),
        "held_s": sum(one.held_s for one in programs),
    }


def _error(simulated_s: Floats, measured_s: Floats, share: float) -> Interval:
    """Of a percentile, with what other programs of the same kind would leave to chance."""
    both = np.stack([simulated_s, measured_s]).transpose(2, 0, 1)  # [programs, 2, repeats]

    def error(found: Floats) -> float:
        simulated, measured = np.quantile(found, share, axis=0)  # [repeats] each
        return float(np.median(simulated / measured) - 1)

    return interval(both, error)


def _bit_of(steps: tuple[Step, Step]) -> int:
    return int(steps[1][4] // DRIFT_S)


def _pace(steps: Sequence[tuple[Step, Step]], costs: SimCosts, unknown: Pace) -> Pace:
    """Of steps, each with the one before it."""
    took_s = should_s = gaps_s = gaps_should_s = 0.0
    for before, (seconds, prompt_tokens, sequences, kv_tokens, _, gap_s, waiting) in steps:
        if prompt_tokens == 0:
            took_s += seconds
            should_s += costs.of(StepWork(0, sequences, kv_tokens, 0.0, waiting=waiting))
        if before[1] == 0 and gap_s is not None:
            gaps_s += gap_s
            gaps_should_s += costs.gap_of(before[2])
    return Pace(
        took_s / should_s if should_s else unknown.step,
        gaps_s / gaps_should_s if gaps_should_s else unknown.gap,
    )


def line_of(case: ValidationCase) -> str:
    """A case for people."""
    steps = ", ".join(f"{pace.step:.2f}" for pace in case.paces)
    gaps = ", ".join(f"{pace.gap:.2f}" for pace in case.paces)
    return (
        f"{case.rate:.4g}/s {case.policy}: mean {case.measured_s.mean():.3f} s measured, "
        f"{case.simulated_s.mean():.3f} s simulated ({case.mean_error:+.1%}), "
        f"p50 {case.error(0.5).value:+.1%} where repeats are {case.repeat_error(0.5):.1%} apart, "
        f"p95 {case.error(0.95).value:+.1%} where {case.repeat_error(0.95):.1%}, "
        f"steps at {steps}, gaps at {gaps}"
    )

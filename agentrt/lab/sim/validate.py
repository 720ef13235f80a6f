"""The simulator against a real engine: the same programs at the same instants, policy by policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, groupby, pairwise
from statistics import fmean, median

import numpy as np

from agentrt.analysis.statistics import Floats, Interval, interval
from agentrt.base.config import PolicyName, SchedulerConfig
from agentrt.lab.progress import WorkPace
from agentrt.lab.sim.costs import Pace, SimCosts, StepWork
from agentrt.lab.sim.outcome import SimulationOutcome
from agentrt.lab.sim.ranking import Ranking, ranking_of
from agentrt.lab.sim.simulation import Setup, Simulation
from agentrt.lab.workloads import Workload
from agentrt.lab.workloads.step_sample import StepSample

MOST_ERROR = 0.10
LEAST_TAU = 0.9

DRIFT_S = 0.5
"""Interval of the pace: other load on a machine changes within seconds."""

ENOUGH_STEPS = 20
"""Least number of steps for a pace."""

_NO_STEP = StepSample(0.0, 0, 0, 0, 0.0, None, 0)

Terms = Mapping[str, float]
"""Sums over all programs of a run of a workload; those of `terms_of`."""


@dataclass(frozen=True, slots=True)
class PlayedWorkload:
    """A workload as a real engine served it.

    Attributes:
        latency_s: Compound latency of each program.
        steps: Steps of the engine; empty if they are not known.
        terms: Terms of the latencies; empty if they are not known.
    """

    latency_s: Sequence[float]
    steps: Sequence[StepSample] = ()
    terms: Terms = field(default_factory=dict)

    def pace(self, costs: SimCosts) -> Pace:
        """Measured time of its steps and gaps divided by their costs.

        Only steps without prompt tokens count, because the KV reads of the others are not known.
        """
        return _pace(list(pairwise((_NO_STEP, *self.steps))), costs, Pace())

    def drift(self, costs: SimCosts) -> list[tuple[float, Pace]]:
        """The pace of each interval, with the second at which it begins."""
        whole = self.pace(costs)
        found: list[tuple[float, Pace]] = []
        steps = pairwise((_NO_STEP, *self.steps))
        for bit, group in groupby(steps, lambda pair: int(pair[1].began_s // DRIFT_S)):
            pairs = list(group)
            pace = _pace(pairs, costs, whole) if len(pairs) >= ENOUGH_STEPS else whole
            found.append((max(0, bit) * DRIFT_S, pace))
        return [*found, (found[-1][0] + DRIFT_S, whole)] if found else []


Play = Callable[[Workload], PlayedWorkload]
"""Serves a workload on a real engine in real time."""


@dataclass(frozen=True, slots=True)
class ValidationCase:
    """One policy at one load.

    Attributes:
        policy: Name of the policy.
        rate: Programs a second.
        measured_s: `[repeats, programs]` latencies on the engine.
        simulated_s: `[repeats, programs]` latencies in the simulator, at the measured pace.
        unpaced_s: `[repeats, programs]` latencies in the simulator, at the calibrated costs.
        paces: Pace of each repeat; 1 on a machine like in the calibration.
        terms: Terms of the latencies, measured and simulated.
    """

    policy: str
    rate: float
    measured_s: Floats
    simulated_s: Floats
    unpaced_s: Floats
    paces: tuple[Pace, ...]
    terms: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def error(self, share: float) -> Interval:
        """Simulated percentile over programs by the measured one, less 1; median of repeats."""
        return _error(self.simulated_s, self.measured_s, share)

    def unpaced_error(self, share: float) -> Interval:
        """The error of the simulation without the pace of the machine."""
        return _error(self.unpaced_s, self.measured_s, share)

    @property
    def mean_error(self) -> float:
        """Simulated mean latency divided by the measured one, less 1."""
        return float(self.simulated_s.mean() / self.measured_s.mean() - 1)

    def repeat_error(self, share: float, *, paced: bool = False) -> float:
        """Error of the engine against itself: a percentile of two repeats.

        Args:
            share: Share of programs below the percentile.
            paced: True to divide each repeat by the pace of its steps.

        Returns:
            The median over all pairs of repeats of the longer divided by the shorter, less 1; 0.0
            of one repeat.
        """
        found = np.quantile(self.measured_s, share, axis=1)  # [repeats]
        if paced:
            found = found / [pace.step for pace in self.paces]
        apart = [max(pair) / min(pair) - 1 for pair in combinations(found.tolist(), 2)]
        return median(apart) if apart else 0.0


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of a validation.

    Attributes:
        cases: All policies at each load.
    """

    cases: Sequence[ValidationCase]

    @property
    def rankings(self) -> dict[float, Ranking]:
        """The ranking of policies at each rate."""
        found = {}
        for rate in dict.fromkeys(case.rate for case in self.cases):
            here = [case for case in self.cases if case.rate == rate]
            found[rate] = ranking_of(
                {case.policy: case.measured_s for case in here},
                {case.policy: case.simulated_s for case in here},
            )
        return found

    def worst(self, share: float) -> float:
        """The largest absolute error of a percentile."""
        return max(abs(case.error(share).value) for case in self.cases)

    def within(self, share: float) -> int:
        """Number of cases with an error of the percentile within the target."""
        return sum(abs(case.error(share).value) <= MOST_ERROR for case in self.cases)

    def repeats_within(self, share: float) -> int:
        """Number of cases whose repeats agree within the target."""
        return sum(case.repeat_error(share) <= MOST_ERROR for case in self.cases)


def validate(
    players: Mapping[PolicyName, Play],
    loads: Sequence[tuple[float, Workload]],
    setup: Setup,
    *,
    repeats: int = 1,
    log: Callable[[str], None] = lambda text: None,
) -> Validation:
    """Serve every load by every policy, on the engine and in the simulator.

    A simulated runtime keeps its estimates from one workload to the next, like the real one. The
    first load does not count. Policies take turns, repeat by repeat, so that disturbances of the
    machine affect all of them.

    Args:
        players: A real engine for each policy.
        loads: Rates with their programs.
        setup: Settings of the simulated engine, equal to those of the real one.
        repeats: Repeats of each load but the first.
        log: Called with each result.
    """
    twins = {policy: _Twins(policy, setup) for policy in players}
    cases: list[ValidationCase] = []
    pace = WorkPace("plays", len(players) * (1 + repeats * (len(loads) - 1)), log)
    for at, (rate, workload) in enumerate(loads):
        found: dict[PolicyName, list[_Repeat]] = {policy: [] for policy in players}
        for _ in range(repeats if at else 1):
            for policy, play in players.items():
                found[policy].append(twins[policy].play(play(workload), workload))
                pace.done()
        if at:
            for policy, several in found.items():
                cases.append(_case(policy, rate, several))
                log(line_of(cases[-1]))
    return Validation(cases)


@dataclass(frozen=True, slots=True)
class _Repeat:
    played: PlayedWorkload
    pace: Pace
    paced: SimulationOutcome
    unpaced: SimulationOutcome


class _Twins:
    """Two simulations beside a real engine: at the pace of the machine, and as calibrated."""

    def __init__(self, policy: PolicyName, setup: Setup) -> None:
        setup = replace(setup, scheduler=SchedulerConfig(policy=policy))
        self._costs = setup.costs
        self._paced = Simulation(setup)
        self._unpaced = Simulation(setup)

    def play(self, played: PlayedWorkload, workload: Workload) -> _Repeat:
        """Simulate the programs that the real engine has served."""
        costs = self._costs
        drift = [(at_s, costs.paced(pace)) for at_s, pace in played.drift(costs)]
        paced = self._paced.run(workload, drift)
        return _Repeat(played, played.pace(costs), paced, self._unpaced.run(workload))


def _case(policy: PolicyName, rate: float, repeats: Sequence[_Repeat]) -> ValidationCase:
    def latencies(outcomes: Iterable[SimulationOutcome]) -> Floats:
        return np.array([[program.latency_s for program in one.programs] for one in outcomes])

    measured = [one.played.terms for one in repeats]
    simulated = [terms_of(one.paced) for one in repeats]
    return ValidationCase(
        policy,
        rate,
        np.array([one.played.latency_s for one in repeats]),
        latencies(one.paced for one in repeats),
        latencies(one.unpaced for one in repeats),
        tuple(one.pace for one in repeats),
        {
            name: (
                fmean(terms[name] for terms in measured),
                fmean(terms[name] for terms in simulated),
            )
            for name in simulated[0]
            if all(name in one for one in measured)
        },
    )


def terms_of(outcome: SimulationOutcome) -> dict[str, float]:
    """The terms of latencies, summed over all programs.

    Steps of the engine with their prompt tokens, output tokens and seconds; seconds from the
    declaration of each generation to its first token, and from there to its value; seconds of
    tools and pauses; seconds of generations at the gate.
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
    """The error of a percentile, with its interval over programs."""
    both = np.stack([simulated_s, measured_s]).transpose(2, 0, 1)  # [programs, 2, repeats]

    def error(found: Floats) -> float:
        simulated, measured = np.quantile(found, share, axis=0)  # [repeats] each
        return float(np.median(simulated / measured) - 1)

    return interval(both, error)


def _pace(steps: Sequence[tuple[StepSample, StepSample]], costs: SimCosts, unknown: Pace) -> Pace:
    """The pace of steps, each given with the one before it; `unknown` without any that counts."""
    took_s = costs_s = gaps_s = gap_costs_s = 0.0
    for before, step in steps:
        if step.prefill_tokens == 0:
            work = StepWork(0, step.decode_tokens, step.kv_tokens, 0.0, waiting=step.waiting)
            took_s += step.seconds
            costs_s += costs.of(work)
        if before.prefill_tokens == 0 and step.gap_s is not None:
            gaps_s += step.gap_s
            gap_costs_s += costs.gap_of(before.decode_tokens)
    return Pace(
        took_s / costs_s if costs_s else unknown.step,
        gaps_s / gap_costs_s if gap_costs_s else unknown.gap,
    )


def line_of(case: ValidationCase) -> str:
    """A case in a line of text."""
    steps = ", ".join(f"{pace.step:.2f}" for pace in case.paces)
    gaps = ", ".join(f"{pace.gap:.2f}" for pace in case.paces)
    return (
        f"{case.rate:.4g}/s {case.policy}: mean {case.measured_s.mean():.3f} s measured, "
        f"{case.simulated_s.mean():.3f} s simulated ({case.mean_error:+.1%}), "
        f"p50 {case.error(0.5).value:+.1%} where repeats are {case.repeat_error(0.5):.1%} apart, "
        f"p95 {case.error(0.95).value:+.1%} where {case.repeat_error(0.95):.1%}, "
        f"steps at {steps}, gaps at {gaps}"
    )

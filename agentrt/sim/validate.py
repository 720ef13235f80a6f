"""The simulator against a real engine: the same programs at the same instants, policy by policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agentrt.config import Policy, SchedulerConfig
from agentrt.report.page import page, table
from agentrt.report.plot import Line, lines
from agentrt.scheduler.estimates import Estimates
from agentrt.scheduler.step_model import StepTime
from agentrt.sim.costs import Costs, StepWork
from agentrt.sim.fluid.library import Floats
from agentrt.sim.simulation import Setup, Simulation
from agentrt.sim.statistics import kendall_tau
from agentrt.workloads import Workload

SCHEMA = "agentrt.sim.validation/1"
MOST_ERROR = 0.10

Step = tuple[float, int, int, int]
"""Seconds of a step, prompt tokens, sequences that decoded, tokens whose KV was read."""


@dataclass(frozen=True, slots=True)
class Played:
    """What a real engine made of a workload.

    Attributes:
        latency_s: Compound latency of each program.
        steps: Of the engine, as far as it tells.
    """

    latency_s: Sequence[float]
    steps: Sequence[Step] = ()

    def pace(self, costs: Costs) -> float:
        """Time that its steps took by what they should have: how the machine was disturbed."""
        should_s = sum(
            costs.of(StepWork(prefill, decodes, kv, 0.0))  # pairs are not told, and little
            for _, prefill, decodes, kv in self.steps
        )
        return sum(step[0] for step in self.steps) / should_s if should_s else 1.0


Play = Callable[[Workload], Played]
"""Serves a workload on a real engine in real time."""


@dataclass(frozen=True, slots=True)
class Case:
    """One policy at one load.

    Attributes:
        policy: Which.
        rate: Programs a second.
        measured_s: `[programs]` on the engine.
        simulated_s: `[programs]` in the simulator, its steps at the pace of the measured ones.
        pace: Of the measured steps by the costs: 1 where the machine was as when it was calibrated.
    """

    policy: str
    rate: float
    measured_s: Floats
    simulated_s: Floats
    pace: float

    def error(self, share: float) -> float:
        """Of a percentile, simulated by measured less 1."""
        return float(np.quantile(self.simulated_s, share) / np.quantile(self.measured_s, share) - 1)

    @property
    def mean_error(self) -> float:
        """Of the mean."""
        return float(self.simulated_s.mean() / self.measured_s.mean() - 1)


@dataclass(frozen=True, slots=True)
class Validation:
    """All cases.

    Attributes:
        cases: Of each load, all policies.
    """

    cases: Sequence[Case]

    def taus(self) -> dict[float, float]:
        """By rate, how far both agree on which policy has the lower mean latency."""
        found = {}
        for rate in dict.fromkeys(case.rate for case in self.cases):
            here = [case for case in self.cases if case.rate == rate]
            found[rate] = kendall_tau(
                [float(case.measured_s.mean()) for case in here],
                [float(case.simulated_s.mean()) for case in here],
            )
        return found

    def worst(self, share: float) -> float:
        """The largest error of a percentile, either way."""
        return max(abs(case.error(share)) for case in self.cases)


def validate(
    players: Mapping[Policy, Play],
    loads: Sequence[tuple[float, Workload]],
    setup: Setup,
    *,
    tell: Callable[[str], None] = lambda text: None,
) -> Validation:
    """Serve every load by every policy, on the engine and in the simulator.

    What is learned at one load is known at the next, on both sides; the first load is not counted.

    Args:
        players: By policy, a real engine that serves by it.
        loads: Rates with their programs.
        setup: Of the simulated engine: as the real one.
        tell: Called with what was found.
    """
    learned = {policy: Estimates() for policy in players}
    cases = []
    for at, (rate, workload) in enumerate(loads):
        for policy, play in players.items():
            played = play(workload)
            measured_s = np.array(played.latency_s)
            pace = played.pace(setup.costs)
            here = replace(
                setup,
                scheduler=SchedulerConfig(policy=policy),
                costs=replace(
                    setup.costs,
                    step=_paced(setup.costs.step, pace),
                    pair_s=setup.costs.pair_s * pace,
                ),
            )
            outcome = Simulation(here, learned[policy]).run(workload)
            simulated_s = np.array([one.latency_s for one in outcome.programs])
            case = Case(policy, rate, measured_s, simulated_s, pace)
            if at:
                cases.append(case)
                tell(line_of(case))
    return Validation(cases)


def _paced(step: StepTime, pace: float) -> StepTime:
    return StepTime(
        step.base_s * pace, step.prefill_s * pace, step.decode_s * pace, step.kv_s * pace
    )


def line_of(case: Case) -> str:
    """A case for people."""
    return (
        f"{case.rate:.4g}/s {case.policy}: mean {case.measured_s.mean():.3f} s measured, "
        f"{case.simulated_s.mean():.3f} s simulated ({case.mean_error:+.1%}), "
        f"p50 {case.error(0.5):+.1%}, p95 {case.error(0.95):+.1%}, steps at {case.pace:.2f}"
    )


def to_json(found: Validation, about: Mapping[str, Any]) -> dict[str, Any]:
    """All of it, with every latency."""
    return {
        "schema": SCHEMA,
        **about,
        "kendall_tau": [{"rate": rate, "tau": tau} for rate, tau in found.taus().items()],
        "cases": [
            {
                "policy": case.policy,
                "rate": case.rate,
                "pace": case.pace,
                "mean_error": case.mean_error,
                "p50_error": case.error(0.5),
                "p95_error": case.error(0.95),
                "measured_s": case.measured_s.tolist(),
                "simulated_s": case.simulated_s.tolist(),
            }
            for case in found.cases
        ],
    }


def validation_page(found: Validation) -> str:
    """All of it as HTML."""
    rows = [
        (
            case.policy,
            f"{case.rate:.3g}",
            f"{case.measured_s.mean():.3f}",
            f"{case.simulated_s.mean():.3f}",
            *(f"{error:+.1%}" for error in (case.mean_error, case.error(0.5), case.error(0.95))),
        )
        for case in found.cases
    ]
    head = ("policy", "programs a second", "measured, s", "simulated, s", "mean", "p50", "p95")
    series = []
    for policy in dict.fromkeys(case.policy for case in found.cases):
        here = [case for case in found.cases if case.policy == policy]
        for name, of in (("measured", "measured_s"), ("simulated", "simulated_s")):
            points = tuple((case.rate, float(getattr(case, of).mean())) for case in here)
            series.append(Line(f"{policy}, {name}", points, dashed=name == "simulated"))
    taus = table(
        ("programs a second", "Kendall's tau of the policies' order"),
        [(f"{rate:.3g}", f"{tau:.2f}") for rate, tau in found.taus().items()],
    )
    drawn = lines("Mean latency", series, x="programs a second", y="seconds", log_y=True)
    return page("The simulator against the engine", [table(head, rows), taus, drawn])

"""Costs fitted to plays of programs on a real engine, after the sweep that gave them.

A sweep measures steps and turns apart from each other. In a play both contend for the cores: three
factors, on the time of steps, of the gaps between them and of the runtime, take that in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from math import log
from typing import Any

import numpy as np

from agentrt.base.config import PolicyName, SchedulerConfig
from agentrt.base.record import record
from agentrt.lab.progress import WorkPace
from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.simulation import Setup, Simulation
from agentrt.lab.sim.validate import Play, PlayedWorkload
from agentrt.lab.workloads import Workload

WARM_LOAD = 0.5
LOADS = (0.3, 0.6, 0.9)
"""Rates by what the engine could serve, roughly."""
FIT_POLICIES: tuple[PolicyName, ...] = ("fcfs", "rwa")
RUNTIME_FACTORS = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8)


@record
class CalibrationPlays:
    """Programs that costs are fitted to; no prediction is judged on them.

    Attributes:
        model: Name of the model.
        shapes: Shapes of the programs.
        programs: Number of programs of each play.
        seeds: Seeds of programs and arrivals, one a load.
        loads: Rates by the rate that the engine could serve.
        policies: Policies, each of which played all loads.
        kv_tokens: KV memory of the engine.
    """

    model: str
    shapes: tuple[str, ...]
    programs: int
    seeds: tuple[int, ...]
    loads: tuple[float, ...]
    policies: tuple[PolicyName, ...]
    kv_tokens: int


@record
class FittedPlay:
    """A play with what a simulation of it needs.

    Attributes:
        policy: Policy of the engine.
        before: Workload that the engine served before, which warmed it up.
        workload: Programs and arrivals.
        played: The play.
    """

    policy: PolicyName
    before: Workload
    workload: Workload
    played: PlayedWorkload


def play_all(
    players: Mapping[PolicyName, Play],
    workloads: Sequence[Workload],
    note: Callable[[str], None] = lambda text: None,
) -> list[FittedPlay]:
    """Play all workloads by all policies; the first only warms up.

    Args:
        players: Engine of each policy.
        workloads: The workloads.
        note: Called with the progress.
    """
    warm, *counted = workloads
    found: list[FittedPlay] = []
    pace = WorkPace("plays", len(players) * len(workloads), note)
    for policy, play in players.items():
        play(warm)
        pace.done()
        for one in counted:
            found.append(FittedPlay(policy, warm, one, play(one)))
            pace.done()
    return found


def fit_to_plays(
    setup: Setup, plays: Sequence[FittedPlay], note: Callable[[str], None]
) -> tuple[SimCosts, dict[str, Any]]:
    """The costs with three factors that explain the plays, and the factors with their errors.

    Steps and gaps are compared with those of the plays; the runtime's time is the one of
    `RUNTIME_FACTORS` with the least squared error of the logarithm of median latencies.

    Args:
        setup: Settings of the simulated engine, with the costs of a sweep.
        plays: The plays.
        note: Called with the progress.
    """
    steps = [step for one in plays for step in one.played.steps]
    pace = PlayedWorkload((), steps).pace(setup.costs)
    best: tuple[float, float, list[float]] | None = None
    for runtime in RUNTIME_FACTORS:
        costs = setup.costs.times(step=pace.step, gap=pace.gap, runtime=runtime)
        errors = _errors(replace(setup, costs=costs), plays)
        loss = sum(log(1 + one) ** 2 for one in errors)
        note(f"runtime at {runtime}: median latencies {', '.join(f'{e:+.0%}' for e in errors)}")
        if best is None or loss < best[0]:
            best = loss, runtime, errors
    assert best is not None
    _, runtime, errors = best
    costs = setup.costs.times(step=pace.step, gap=pace.gap, runtime=runtime)
    return costs, {**asdict(pace), "runtime": runtime, "in_sample_errors_p50": errors}


def _errors(setup: Setup, plays: Sequence[FittedPlay]) -> list[float]:
    """Simulated median latency of each play by the measured one, less 1."""
    errors = []
    for one in plays:
        scheduler = SchedulerConfig(policy=one.policy)
        simulation = Simulation(replace(setup, scheduler=scheduler))
        simulation.run(one.before)
        outcome = simulation.run(one.workload)
        simulated_s = np.median([program.latency_s for program in outcome.programs])
        errors.append(float(simulated_s / np.median(one.played.latency_s) - 1))
    return errors

"""Plays a case on a real engine, and predicts it from the state of the machine between the plays.

The pace of a shared machine changes within minutes. A probe before the first play knows nothing
of the last one. A prediction is given no time of a play, only the two numbers of the probes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from agentrt.analysis.statistics import Floats
from agentrt.base.config import PolicyName, SchedulerConfig
from agentrt.base.record import record
from agentrt.lab.sim.machine_state import StateFactors
from agentrt.lab.sim.prediction import PredictedCase, are_steady
from agentrt.lab.sim.service import service_of
from agentrt.lab.sim.simulation import Setup, Simulation
from agentrt.lab.sim.validate import Play, PlayedWorkload
from agentrt.lab.workloads import Workload


@record
class CasePlan:
    """A case to predict and to play.

    Attributes:
        name: Policy and load.
        policy: Policy of the engine.
        rate: Programs a second.
        before: Programs that warm the engine up.
        workload: Programs and their arrivals.
    """

    name: str
    policy: PolicyName
    rate: float
    before: Workload
    workload: Workload


def predict_and_play(
    plan: CasePlan,
    setup: Setup,
    probe: Callable[[], StateFactors],
    open_engine: Callable[[], Play],
    *,
    plays: int,
    attempts: int,
) -> PredictedCase:
    """Play a case, again while the halves of its plays disagree, and predict the last attempt.

    Args:
        plan: The case.
        setup: Settings of the simulated engine, with the calibrated costs.
        probe: Probes the machine; called before, between and after the plays of an attempt.
        open_engine: Opens an engine that has served nothing.
        plays: Plays of each attempt.
        attempts: Most attempts.
    """
    began_s = time.monotonic()
    setup = replace(setup, scheduler=SchedulerConfig(policy=plan.policy))
    play = open_engine()
    play(plan.before)
    tried: list[Floats] = []
    played: list[PlayedWorkload] = []
    states: list[StateFactors] = []
    while not tried or (len(tried) < attempts and not are_steady(tried[-1])):
        states = [probe()]
        for _ in range(plays):
            played.append(play(plan.workload))
            states.append(probe())
        tried.append(np.array([one.latency_s for one in played[-plays:]]))
    state = middle_state(states)
    predicted_s, naive_s = predict(plan, setup, state, plays)
    return PredictedCase(
        plan.name,
        plan.policy,
        plan.rate,
        state,
        predicted_s,
        naive_s,
        tried,
        _at_their_own_pace(plan, setup, played)[-plays:],
        time.monotonic() - began_s,
    )


def middle_state(states: Sequence[StateFactors]) -> StateFactors:
    """The median of several probes, number by number."""
    return StateFactors(
        median(one.compute for one in states), median(one.runtime for one in states)
    )


def predict(plan: CasePlan, setup: Setup, state: StateFactors, plays: int) -> tuple[Floats, Floats]:
    """`[plays, programs]` simulated latencies, and `[programs]` work by rate."""
    costs = state.of(setup.costs)
    simulation = Simulation(replace(setup, costs=costs))
    simulation.run(plan.before)
    simulated = [_latencies_s(simulation, plan.workload) for _ in range(plays)]
    naive = [sum(service_of(one.program, costs.step).values()) for one in plan.workload]
    return np.array(simulated), np.array(naive)


def _at_their_own_pace(plan: CasePlan, setup: Setup, played: Sequence[PlayedWorkload]) -> Floats:
    """`[plays, programs]` latencies, simulated at the pace that each play itself had."""
    costs = setup.costs
    simulation = Simulation(setup)
    simulation.run(plan.before)
    found = []
    for one in played:
        drift = [(at_s, costs.paced(pace)) for at_s, pace in one.drift(costs)]
        outcome = simulation.run(plan.workload, drift)
        found.append([program.latency_s for program in outcome.programs])
    return np.array(found)


def _latencies_s(simulation: Simulation, workload: Workload) -> list[float]:
    return [program.latency_s for program in simulation.run(workload).programs]

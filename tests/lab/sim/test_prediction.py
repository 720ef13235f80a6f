"""Predictions judged on plays that no calibration has seen; simulations stand for the engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import numpy as np
import pytest

from agentrt.base.config import EngineConfig, SchedulerConfig
from agentrt.base.errors import UsageError
from agentrt.lab.sim.calibration_plays import fit_to_plays, play_all
from agentrt.lab.sim.costs import SimCosts, StepWork
from agentrt.lab.sim.machine_state import MachineState, StateFactors, measure_state, state_in
from agentrt.lab.sim.predicted_plays import CasePlan, predict_and_play
from agentrt.lab.sim.prediction import (
    PredictedCase,
    halves_apart,
    line_of,
    middle,
    verdicts,
)
from agentrt.lab.sim.prediction_file import PredictionFile, prediction_page, read_prediction
from agentrt.lab.sim.simulation import Setup, Simulation
from agentrt.lab.sim.validate import Play, PlayedWorkload
from agentrt.lab.workloads import Workload
from agentrt.lab.workloads.step_sample import StepSample

Draw = Callable[[int, int, float], Workload]
HALF_AGAIN = StateFactors(1.5, 2.0)
AS_CALIBRATED = StateFactors(1.0, 1.0)


def engine_of(setup: Setup, times: tuple[float, ...] = (1.0,)) -> Play:
    """An engine that is simulated; its plays take turns in how many times as long they take."""
    simulation = Simulation(setup)
    played: list[Workload] = []

    def play(workload: Workload) -> PlayedWorkload:
        outcome = simulation.run(workload)
        by = times[len(played) % len(times)]
        played.append(workload)
        return PlayedWorkload([by * one.latency_s for one in outcome.programs])

    return play


def plan_of(draw: Draw) -> CasePlan:
    return CasePlan("rwa@3", "rwa", 3.0, draw(1, 6, 3.0), draw(2, 12, 3.0))


def case_of(predicted: float, measured: list[float], name: str = "rwa@1") -> PredictedCase:
    """A case of three programs that take alike."""
    programs = np.ones((1, 3))
    plays = np.array([[one] * 3 for one in measured])
    naive = np.full(3, 0.5)
    return PredictedCase(
        name, "rwa", 1.0, AS_CALIBRATED, predicted * programs, naive, [plays], plays, 1.0
    )


def test_a_machine_in_another_state_is_predicted(draw: Draw, costs: SimCosts) -> None:
    """Steps take half again as long, and the runtime twice: two numbers tell all of it."""
    setup = Setup(costs, 2048, max_running=8)
    slow = replace(setup, costs=HALF_AGAIN.of(costs), scheduler=SchedulerConfig(policy="rwa"))
    plan = plan_of(draw)

    def open_engine() -> Play:
        return engine_of(slow)

    told = predict_and_play(plan, setup, lambda: HALF_AGAIN, open_engine, plays=2, attempts=1)
    assert told.error(0.5) == told.error(0.95) == 0.0
    assert told.naive_error(0.5) < -0.2
    untold = predict_and_play(plan, setup, lambda: AS_CALIBRATED, open_engine, plays=2, attempts=1)
    assert untold.error(0.5) < -0.2
    assert HALF_AGAIN.of(costs).of(StepWork(7, 3, 100, 50.0)) == pytest.approx(
        1.5 * costs.of(StepWork(7, 3, 100, 50.0))
    )
    assert HALF_AGAIN.of(costs).run_s == 2 * costs.run_s


def test_the_state_is_that_between_the_plays(draw: Draw, costs: SimCosts) -> None:
    """A machine that gets slower after the first probe, and is disturbed in a single one."""
    setup = Setup(costs, 2048, max_running=8)
    slow = replace(setup, costs=HALF_AGAIN.of(costs), scheduler=SchedulerConfig(policy="rwa"))
    done: list[str] = []
    states = iter([AS_CALIBRATED, HALF_AGAIN, StateFactors(9.0, 9.0), HALF_AGAIN])

    def probe() -> StateFactors:
        done.append("probe")
        return next(states)

    def open_engine() -> Play:
        engine = engine_of(slow)

        def play(workload: Workload) -> PlayedWorkload:
            done.append("play")
            return engine(workload)

        return play

    found = predict_and_play(plan_of(draw), setup, probe, open_engine, plays=3, attempts=1)
    assert done == ["play", "probe", *("play", "probe") * 3]
    assert found.state == HALF_AGAIN
    assert found.error(0.5) == found.error(0.95) == 0.0


def test_a_case_whose_halves_disagree_is_played_again(draw: Draw, costs: SimCosts) -> None:
    """The second attempt is judged; with a single one the case counts as missed."""
    setup = Setup(costs, 2048, max_running=8)
    plan = plan_of(draw)
    times = (1.0, 1.0, 1.5, 1.0, 1.0)  # the warm-up and four plays, of which one is disturbed

    def open_engine() -> Play:
        return engine_of(replace(setup, scheduler=SchedulerConfig(policy="rwa")), times)

    again = predict_and_play(plan, setup, lambda: AS_CALIBRATED, open_engine, plays=2, attempts=3)
    assert len(again.attempts) == 2
    assert again.is_within("p50")
    once = predict_and_play(plan, setup, lambda: AS_CALIBRATED, open_engine, plays=2, attempts=1)
    assert len(once.attempts) == 1
    assert not once.is_judged(0.5)
    assert not once.is_within("p50")


def test_halves_are_the_earlier_and_the_later_plays() -> None:
    plays = np.array([[1.0], [1.0], [9.0], [1.3], [1.3]])
    assert halves_apart(plays, 0.5) == pytest.approx(0.3)
    assert halves_apart(plays[:1], 0.5) == float("inf")
    assert middle(plays, 0.5) == 1.3


def test_only_judged_cases_within_the_target_count() -> None:
    cases = [
        case_of(1.1, [1.0] * 5, "rwa@1"),
        case_of(1.18, [1.0] * 5, "rwa@2"),  # within the target of p95 alone
        case_of(1.0, [1.0, 1.0, 1.0, 2.0, 2.0], "rwa@3"),  # of an unsteady machine
    ]
    lines = verdicts(cases)
    assert lines[0].startswith("p50, out of sample: 1 of 3 cases within 15% (missed")
    assert "judged 2" in lines[0]
    assert any(one.startswith("p95, out of sample: 2 of 3 cases within 20%") for one in lines)
    assert "  work by rate: 0 within 15%, at worst -50%" in lines
    assert "rwa@2" in line_of(cases[1])
    assert "+18.0%" in line_of(cases[1])


def test_a_file_grows_and_refuses_another_machine(tmp_path: Path) -> None:
    path = tmp_path / "prediction.json"
    identity = {"machine": {"cores": 2}, "costs": {"step": {"base_s": 0.1}}, "code": "abc"}
    found = PredictionFile(identity, {"rwa@1": case_of(1.1, [1.0, 1.02])})
    path.write_text(json.dumps(found.to_json()), "utf-8")
    again = read_prediction(path, identity)
    assert again.left(["rwa@1", "rwa@2"]) == ["rwa@2"]
    assert again.cases["rwa@1"].error(0.5) == found.cases["rwa@1"].error(0.5)
    assert again.to_json()["cases"] == found.to_json()["cases"]
    assert "out of sample: 1 of 1" in prediction_page(again)
    for other in ({"code": "abd"}, {"costs": {"step": {"base_s": 0.2}}}, {"machine": {"cores": 4}}):
        with pytest.raises(UsageError, match="differs from earlier plays"):
            read_prediction(path, {**identity, **other})


def test_costs_are_fitted_to_plays(draw: Draw, costs: SimCosts) -> None:
    """An engine with slower steps and a runtime that takes twice as long as the sweep found."""
    costs = replace(costs, submit_s=5e-2, gap_s=2e-3)
    setup = Setup(costs, 4096, max_running=8)
    true = costs.times(step=1.3, gap=1.5, runtime=2.0)
    simulation = Simulation(replace(setup, costs=true, scheduler=SchedulerConfig(policy="fcfs")))
    work = StepWork(0, 4, 900, 0.0)
    step = StepSample(true.of(work), 0, 4, 900, 0.0, true.gap_of(4), 0)

    def play(workload: Workload) -> PlayedWorkload:
        latency_s = [one.latency_s for one in simulation.run(workload).programs]
        return PlayedWorkload(latency_s, [step] * 3)

    plays = play_all({"fcfs": play}, [draw(at, 8, 1.0) for at in range(3)])
    assert len(plays) == 2  # the first workload only warms up
    told: list[str] = []
    fitted, factors = fit_to_plays(setup, plays, told.append)
    assert (factors["step"], factors["gap"], factors["runtime"]) == pytest.approx((1.3, 1.5, 2.0))
    assert fitted.submit_s == pytest.approx(0.1)
    assert fitted.step.base_s == pytest.approx(1.3 * costs.step.base_s)
    assert max(map(abs, factors["in_sample_errors_p50"])) < 1e-9


def test_costs_without_plays_tell_no_state(costs: SimCosts) -> None:
    with pytest.raises(UsageError, match="in which state"):
        state_in(costs)
    state = {"step_s": 0.002, "node_s": 1e-4}
    assert state_in(replace(costs, about={"state": state})) == MachineState(0.002, 1e-4)
    assert MachineState(0.003, 2e-4).since(MachineState(0.002, 1e-4)) == StateFactors(1.5, 2.0)


def test_a_real_machine_has_a_state(tiny: EngineConfig) -> None:
    state = anyio.run(measure_state, tiny)
    assert 0 < state.node_s < state.step_s * 1000

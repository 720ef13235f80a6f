"""The simulator against something that plays in real time."""

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from agentrt.lab.sim.costs import Pace, SimCosts, StepWork
from agentrt.lab.sim.ranking import ranking_of
from agentrt.lab.sim.simulation import Setup, Simulation
from agentrt.lab.sim.validate import (
    DRIFT_S,
    Play,
    PlayedWorkload,
    Validation,
    ValidationCase,
    terms_of,
    validate,
)
from agentrt.lab.sim.validation_page import to_json, validation_page
from agentrt.lab.workloads import Workload
from agentrt.lab.workloads.step_sample import StepSample

Draw = Callable[[int, int, float], Workload]


def cheap_prompts(costs: SimCosts) -> SimCosts:
    """Contexts are computed again in no time."""
    return replace(costs, step=replace(costs.step, prefill_s=1e-6), pair_s=0.0)


def test_errors_and_orders_are_told(draw: Draw, costs: SimCosts) -> None:
    """An engine that is a fifth slower than simulated, with the policies in the same order."""
    setup = Setup(costs, 2048, max_running=8)

    def slower(by: float) -> Play:
        def play(workload: Workload) -> PlayedWorkload:
            outcome = Simulation(setup).run(workload)
            return PlayedWorkload(
                [one.latency_s * by for one in outcome.programs], (), terms_of(outcome)
            )

        return play

    loads = [(rate, draw(at, 20, rate)) for at, rate in enumerate((1.0, 1.0, 3.0))]
    told: list[str] = []
    players = {"rwa": slower(1.25), "fcfs": slower(10.0)}
    found = validate(players, loads, setup, repeats=2, log=told.append)  # type: ignore[arg-type]
    results = [line for line in told if "p95" in line]
    assert len(found.cases) == len(results) == 4  # the first load only warms up
    assert found.cases[0].policy == "rwa"
    assert found.cases[0].measured_s.shape == (2, 20)
    assert found.cases[0].mean_error == pytest.approx(-0.2, abs=0.02)
    assert found.cases[0].repeat_error(0.5) == 0.0
    error = found.cases[0].error(0.5)
    assert error.low <= error.value == pytest.approx(-0.2, abs=0.02)
    assert found.worst(0.5) > 0.5
    about = {"model": "none", "costs": costs.to_json()}
    written = json.loads(json.dumps(to_json(found, about)))
    assert len(written["cases"]) == 4
    assert len(written["cases"][0]["measured_s"][0]) == 20
    assert written["cases"][0]["terms"]["decode_tokens"]["measured"] > 0
    assert [one["tau_of_ranked_pairs"] for one in written["rankings"]] in (
        [None, None],
        [1.0, 1.0],
        [-1.0, -1.0],
        [1.0, -1.0],
        [-1.0, 1.0],
    )
    page = validation_page(found, about)
    assert "<svg" in page
    assert "gap_s" in page


def test_a_disturbed_machine_has_a_pace(draw: Draw, costs: SimCosts) -> None:
    """Where everything takes twice what was calibrated the simulated machine is half as fast."""
    work = StepWork(0, 4, 900, 0.0)
    prompts = StepSample(9.0, 512, 4, 900, 0.0, None, 0)  # which do not tell who reads how much
    steps = [StepSample(2 * costs.of(work), 0, 4, 900, 0.0, None, 0)] * 3
    assert PlayedWorkload([1.0], [*steps, prompts]).pace(costs).step == pytest.approx(2.0)
    assert PlayedWorkload([1.0], [prompts]).pace(costs) == Pace()
    workload = draw(0, 10, 1.0)
    halved = Setup(costs.paced(Pace(2.0, 2.0)), 4096, max_running=8)

    def play(workload: Workload) -> PlayedWorkload:
        outcome = Simulation(halved).run(workload)
        return PlayedWorkload([one.latency_s for one in outcome.programs], steps)

    found = validate({"fcfs": play}, [(1.0, workload)] * 2, Setup(costs, 4096, max_running=8))
    assert [pace.step for pace in found.cases[0].paces] == pytest.approx([2.0])
    assert found.worst(0.5) < 0.05
    assert found.cases[0].unpaced_error(0.5).value < -0.2


def test_a_pace_changes_within_a_play(draw: Draw, costs: SimCosts) -> None:
    """Three times as slow for a while: the twin is so in the same while, and as long on average."""
    work = StepWork(0, 4, 900, 0.0)
    took_s = costs.of(work)
    times = [at * DRIFT_S / 40 for at in range(40 * 12)]
    steps = [
        StepSample(took_s * (3 if 2 <= at_s < 4 else 1), 0, 4, 900, at_s, None, 0) for at_s in times
    ]
    played = PlayedWorkload([1.0], [*steps, StepSample(9.0, 0, 4, 900, 100.0, None, 0)])
    drift = dict(played.drift(costs))
    assert drift[1.5].step == pytest.approx(1.0)
    assert drift[2.0].step == drift[3.5].step == pytest.approx(3.0)
    assert drift[4.0].step == pytest.approx(1.0)
    assert drift[100.0] == drift[100.0 + DRIFT_S] == played.pace(costs)  # too few to tell
    assert PlayedWorkload([1.0]).drift(costs) == []
    setup = Setup(costs, 4096, max_running=8)
    workload = draw(0, 12, 3.0)
    slow = [(at_s, costs.paced(pace)) for at_s, pace in PlayedWorkload([1.0], steps).drift(costs)]
    engine = Simulation(setup)

    def play(workload: Workload) -> PlayedWorkload:
        return PlayedWorkload([one.latency_s for one in engine.run(workload, slow).programs], steps)

    found = validate({"rwa": play}, [(3.0, workload)] * 2, setup)
    assert found.worst(0.5) == found.worst(0.95) == 0.0
    assert abs(found.cases[0].unpaced_error(0.5).value) > 0.05


def test_what_was_learned_is_known_in_the_next_play(draw: Draw, costs: SimCosts) -> None:
    """An engine that learns, while it is played, that no gate is worth it: so does its twin."""
    setup = Setup(cheap_prompts(costs), 512, max_running=8)
    engine = Simulation(setup)
    held_s: list[float] = []

    def play(workload: Workload) -> PlayedWorkload:
        outcome = engine.run(workload)
        held_s.append(terms_of(outcome)["held_s"])
        return PlayedWorkload([one.latency_s for one in outcome.programs], (), terms_of(outcome))

    loads = [(4.0, draw(at, 40, 4.0)) for at in range(2)]
    found = validate({"rwa": play}, loads, setup, repeats=2)
    assert held_s[0] > 0.0 == held_s[-1]
    assert found.cases[0].terms["held_s"] == (0.0, 0.0)
    assert found.worst(0.5) == found.worst(0.95) == 0.0


def test_the_engine_is_held_against_itself() -> None:
    """Of three plays two are alike once each is taken by its pace; one simulated play is off."""
    base = np.arange(1.0, 22.0)
    paces = (Pace(1.0), Pace(1.5), Pace(1.5))
    measured = np.array([base, 1.5 * base, 1.8 * base])
    case = ValidationCase(
        "rwa", 1.0, measured, np.array([base, 3.0 * base, 1.8 * base]), measured, paces
    )
    assert case.error(0.5).value == pytest.approx(0.0)  # of the middle repeat
    assert case.repeat_error(0.5) == pytest.approx(0.5)
    assert case.repeat_error(0.5, paced=True) == pytest.approx(0.2)
    validation = Validation([case])
    assert (validation.within(0.5), validation.repeats_within(0.5)) == (1, 0)
    alone = replace(case, measured_s=measured[:1], simulated_s=measured[:1], paces=paces[:1])
    assert alone.repeat_error(0.5) == 0.0


def test_a_pace_is_of_all_that_takes_time(costs: SimCosts) -> None:
    twice = costs.paced(Pace(2.0, 2.0))
    assert twice.of(StepWork(7, 3, 100, 50.0, 2)) == 2 * costs.of(StepWork(7, 3, 100, 50.0, 2))
    assert (twice.submit_s, twice.gap_of(3)) == (2 * costs.submit_s, 2 * costs.gap_of(3))
    assert twice.jump_share == costs.jump_share


def test_gaps_have_a_pace_of_their_own(draw: Draw, costs: SimCosts) -> None:
    """Engines with much to hear: their steps are as calibrated, the time between is not."""
    costs = replace(costs, gap_s=2e-3, gap_row_s=5e-4)
    work = StepWork(0, 4, 900, 0.0)
    step = (costs.of(work), 0, 4, 900, 0.0)
    first, later = StepSample(*step, None, 0), StepSample(*step, 3 * costs.gap_of(4), 0)
    prompts = StepSample(0.5, 512, 4, 900, 0.0, later.gap_s, 0)  # of unknown batch
    played = PlayedWorkload([1.0], [first, later, later, prompts, StepSample(*step, 9.0, 0), first])
    pace = played.pace(costs)
    assert (pace.step, pace.gap) == pytest.approx((1.0, 3.0))


def test_a_play_that_was_disturbed_ranks_nobody() -> None:
    """All programs of one play of three took a fifth longer: that play was, not that policy."""
    base = np.random.default_rng(0).uniform(1, 3, size=40)
    calm = np.stack([base, base, base])
    disturbed = np.stack([base, 1.2 * base, base])
    slower = np.stack([1.3 * base, 1.5 * base, 1.4 * base])
    found = ranking_of({"a": calm, "b": disturbed, "c": slower}, {"a": calm, "b": calm, "c": calm})
    assert [pair.is_ranked for pair in found.pairs] == [False, True, True]
    one_play = ranking_of({"a": calm[:1], "b": disturbed[1:2]}, {"a": calm[:1], "b": calm[:1]})
    assert one_play.pairs[0].is_ranked  # nothing tells of other plays


def test_what_chance_may_have_made_is_not_ranked() -> None:
    """Of three policies two differ by noise: whoever orders these is right in any way."""
    random = np.random.default_rng(0)
    base = random.uniform(1, 3, size=(1, 40))
    noise = [random.normal(0, 0.05, size=(2, 40)) for _ in range(3)]
    measured = {"a": base + noise[0], "b": base + noise[1], "c": 1.5 * base + noise[2]}
    order = "ab" if measured["a"].mean() > measured["b"].mean() else "ba"
    other = {order[0]: base, order[1]: base + 0.01, "c": 1.4 * base}
    found = ranking_of(measured, other)
    assert [(pair.one + pair.other, pair.is_ranked) for pair in found.pairs] == [
        ("ab", False),
        ("ac", True),
        ("bc", True),
    ]
    assert found.tau == 1.0
    assert found.plain_tau == pytest.approx(1 / 3)
    wrong = ranking_of(measured, {"a": 2 * base, "b": base, "c": 1.5 * base})
    assert wrong.tau == 0.0
    assert ranking_of({"a": base, "b": base}, {"a": base, "b": 2 * base}).tau is None

"""The simulator against something that plays in real time."""

import json
from collections.abc import Callable

import pytest

from agentrt.sim.costs import Costs, StepWork
from agentrt.sim.simulation import Setup, Simulation
from agentrt.sim.validate import Play, Played, to_json, validate, validation_page
from agentrt.workloads import Workload

Draw = Callable[[int, int, float], Workload]


def test_errors_and_orders_are_told(draw: Draw, costs: Costs) -> None:
    """An engine that is a fifth slower than simulated, with the policies in the same order."""
    setup = Setup(costs, 2048, max_running=8)

    def slower(by: float) -> Play:
        def play(workload: Workload) -> Played:
            programs = Simulation(setup).run(workload).programs
            return Played([one.latency_s * by for one in programs])

        return play

    loads = [(rate, draw(at, 20, rate)) for at, rate in enumerate((1.0, 1.0, 3.0))]
    told: list[str] = []
    found = validate({"rwa": slower(1.25), "fcfs": slower(10.0)}, loads, setup, tell=told.append)
    assert len(found.cases) == len(told) == 4  # the first load only warms up
    assert found.cases[0].policy == "rwa"
    assert found.cases[0].mean_error == pytest.approx(-0.2, abs=0.02)
    assert found.worst(0.5) > 0.5
    assert set(found.taus().values()) <= {-1.0, 0.0, 1.0}
    written = json.loads(json.dumps(to_json(found, {"model": "none"})))
    assert len(written["cases"]) == 4
    assert len(written["cases"][0]["measured_s"]) == 20
    assert "<svg" in validation_page(found)


def test_a_disturbed_machine_has_a_pace(costs: Costs) -> None:
    """Steps that took twice what was calibrated make the simulated ones twice as long."""
    work = StepWork(100, 4, 900, 0.0)
    steps = [(2 * costs.of(work), 100, 4, 900)] * 3
    assert Played([1.0], steps).pace(costs) == pytest.approx(2.0)
    assert Played([1.0]).pace(costs) == 1.0

"""The simulator takes the steps of the whole product: language, codec, runtime, engine, model."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from agentrt.base.config import EngineConfig, SchedulerConfig
from agentrt.lab.arms.runtime_arm import PlayObserver
from agentrt.lab.bench.compound.model import BenchModel, bench_model
from agentrt.lab.bench.compound.plan import Round
from agentrt.lab.commands.sim_plays import played_form, start_tokens
from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.simulation import BEGIN_S, Setup, Simulation
from agentrt.lab.workloads import Arrival, Workload
from agentrt.lab.workloads.arrivals import poisson
from agentrt.lab.workloads.step_sample import StepSample
from agentrt.scheduler.estimates.step_model import StepTime
from tests.lab.sim.timed_engine import played_on_costs

COSTS = SimCosts(StepTime(base_s=2e-3, prefill_s=3e-5, decode_s=5e-5, kv_s=1e-8), gap_s=1e-4)
SCHEDULER = SchedulerConfig()


def step_logs(
    model: BenchModel, workload: Workload, kv_tokens: int
) -> tuple[list[StepSample], list[StepSample]]:
    """The steps of a real engine and of the simulator, on the same costs."""
    config = EngineConfig(model.path, kv_pages=kv_tokens // 16, policy="rwa", threads=1)
    lines = Round("logs", workload, model.drawing.spell).lines()
    observer = PlayObserver()
    setup = Setup(COSTS, kv_tokens, start_tokens=start_tokens(model), greedy=True)
    simulation = Simulation(setup, observers=[observer])
    observer.begin(BEGIN_S)
    simulation.run(workload)
    return played_on_costs(config, COSTS, SCHEDULER, lines), observer.steps


def counted(steps: list[StepSample]) -> list[tuple[int, ...]]:
    """Prompt tokens, sequences, tokens read, and requests in line, by step."""
    return [(one.prefill_tokens, one.decode_tokens, one.kv_tokens, one.waiting) for one in steps]


@pytest.mark.parametrize(
    ("shape", "draw"), [("map-reduce", 1), ("chat", 2), ("tree-of-thought", 0)]
)
def test_a_program_takes_the_same_steps(shape: str, draw: int) -> None:
    """Texts that fill a prompt while they are written; samples that are equal; turns of a talk."""
    model = bench_model("micro")
    program = played_form(model, model.drawing.one(shape, draw)[0])
    real, simulated = step_logs(model, (Arrival(0.0, program),), 1024)
    assert counted(real) == counted(simulated)
    assert len(real) > 50
    ends = zip(real, simulated, strict=True)
    assert max(abs(one.began_s - other.began_s) for one, other in ends) < 1e-3


def test_programs_that_share_an_engine_take_the_same_steps() -> None:
    """Six programs at once, with memory for some of them."""
    model = bench_model("micro")
    drawn = [
        replace(played_form(model, model.drawing.one(shape, draw)[0]), serial=draw)
        for draw in range(3)
        for shape in ("map-reduce", "chat")
    ]
    real, simulated = step_logs(model, poisson(drawn, 5.0, Random("steps")), 1024)
    assert counted(real) == counted(simulated)
    assert max(one.waiting for one in real) > 5

"""What has the KV memory while steps are computed, and what the rest is committed to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from agentrt.base.config import SchedulerConfig
from agentrt.lab.sim.arms import PLAIN
from agentrt.lab.sim.command import run_once
from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.flags import RunFlags
from agentrt.lab.sim.memory_account import QUANTITIES
from agentrt.lab.sim.simulation import Setup, Simulation
from agentrt.lab.workloads import Workload

Draw = Callable[[int, int, float], Workload]
KV = 1600


def served(costs: SimCosts, workload: Workload, scheduler: SchedulerConfig) -> dict[str, float]:
    setup = Setup(costs, KV, scheduler=scheduler, accounts=True)
    (found,) = Simulation(setup).run(workload).memory
    return found


@pytest.mark.parametrize("seed", range(3))
def test_all_of_the_memory_is_accounted_for(costs: SimCosts, draw: Draw, seed: int) -> None:
    found = served(costs, draw(seed, 20, 8.0), SchedulerConfig())
    assert found.keys() == set(QUANTITIES)
    pages = ("decoding", "prefilling", "cached", "free")
    assert sum(found[f"{name}_tokens"] for name in pages) == pytest.approx(KV)
    assert min(found.values()) >= 0.0


@pytest.mark.parametrize("seed", range(3))
def test_commitments_stay_within_the_limit_but_for_what_is_over_it(
    costs: SimCosts, draw: Draw, seed: int
) -> None:
    found = served(costs, draw(seed, 20, 8.0), SchedulerConfig(policy="fcfs"))
    names = ("used", "queued", "unreached", "paused", "spare")
    committed = sum(found[f"{name}_tokens"] for name in names)
    assert committed <= 0.8 * KV + found["over_tokens"] + 1e-6
    assert found["held_runs"] > 1.0  # so many come at once that the memory is short
    assert found["used_tokens"] > 0.0


def test_without_admission_control_nothing_is_committed(costs: SimCosts, draw: Draw) -> None:
    found = served(costs, draw(0, 8, 1.0), PLAIN)
    assert found["decoding_tokens"] > 0.0
    assert found["used_tokens"] == found["unreached_tokens"] == found["held_runs"] == 0.0


def test_a_share_of_the_time_computes_prompts(costs: SimCosts, draw: Draw) -> None:
    found = served(costs, draw(1, 8, 1.0), SchedulerConfig())
    assert 0.0 < found["prompt_share"] < 1.0
    quick = served(
        replace(costs, step=replace(costs.step, prefill_s=0.0)), draw(1, 8, 1.0), SchedulerConfig()
    )
    assert quick["prompt_share"] < found["prompt_share"]


def test_an_account_changes_nothing(costs: SimCosts, draw: Draw) -> None:
    ends = []
    for accounts in (True, False):
        outcome = Simulation(Setup(costs, KV, accounts=accounts)).run(draw(2, 12, 8.0))
        assert bool(outcome.memory) is accounts
        ends.append([one.finished_at_s for one in outcome.programs])
    assert ends[0] == ends[1]


def test_a_run_of_the_command_shows_it() -> None:
    flags = RunFlags(workload="react", programs=10, scale="output=0.05,count=0.3", kv_tokens=600)
    found = run_once(flags, lambda text: None)
    assert {f"memory_{name}" for name in QUANTITIES} <= found.keys()

"""Drawn plays take known engine steps.

An independent discrete-event simulator, with an engine and a runtime of its own, took the same.
A change of scheduling may change them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from hashlib import sha256

import pytest

from agentrt.base.config import PolicyName, SchedulerConfig
from agentrt.engine.core import EngineCore
from agentrt.engine.step import InFlightStep
from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.simulation import Setup, Simulation
from agentrt.lab.workloads import Workload
from agentrt.protocol.step_output import StepDone

Draw = Callable[[int, int, float], Workload]


@pytest.mark.parametrize(
    ("seed", "policy", "gate_share", "kv_tokens", "host_kv_tokens", "steps", "digest", "latency_s"),
    [
        (0, "fcfs", 0.0, 640, 0, 638, "8b5a624e74284bd6", 6.030856921348017),
        (1, "lpm", 0.0, 900, 0, 803, "77dcd363727d3ba8", 2.6393195769073237),
        (2, "plas", 0.8, 1500, 0, 585, "c5a376db0e80e166", 4.294950716950043),
        (3, "rwa", 0.8, 640, 0, 916, "affcd30c38f7769c", 4.805239076866051),
        (4, "oracle", 0.8, 900, 4000, 734, "1c3110ff20c245d9", 3.3505640365339104),
    ],
)
def test_steps_are_those_of_an_independent_simulator(
    seed: int,
    policy: PolicyName,
    gate_share: float,
    kv_tokens: int,
    host_kv_tokens: int,
    steps: int,
    digest: str,
    latency_s: float,
    costs: SimCosts,
    draw: Draw,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In each step the same sequences compute as many tokens; programs take as long."""
    taken = sha256()

    class Watched(EngineCore):
        def end_step(self, step: InFlightStep) -> list[StepDone]:
            members = [
                (int(one.request.request_id), str(one.request.run_id), count)
                for one, count in step.plan.shares
            ]
            for _ in step.batch.spans:
                taken.update(repr(members).encode())
            return super().end_step(step)

    monkeypatch.setattr("agentrt.lab.sim.simulation.EngineCore", Watched)
    rich = dataclasses.replace(
        costs,
        call_s=3e-4,
        tell_s=1e-4,
        close_s=1e-4,
        gap_s=1e-3,
        wait_s=1e-4,
        copy_token_s=1e-7,
        kv_token_bytes=256.0,
    )
    hints = policy in ("rwa", "oracle")
    scheduler = SchedulerConfig(policy, gate_share, retention=hints, share_nodes=hints)
    setup = Setup(rich, kv_tokens, host_kv_tokens, max_running=8, scheduler=scheduler)
    outcome = Simulation(setup).run(draw(seed, 25, 1.5))
    assert outcome.engines[0].steps == steps
    assert taken.hexdigest()[:16] == digest
    mean_s = sum(one.latency_s for one in outcome.programs) / len(outcome.programs)
    assert mean_s == pytest.approx(latency_s, rel=1e-9)

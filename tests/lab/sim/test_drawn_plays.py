"""Drawn plays take known engine steps.

A change of scheduling may change them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from agentrt.base.config import PolicyName, SchedulerConfig
from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.simulation import Setup, Simulation
from agentrt.lab.workloads import Workload

Draw = Callable[[int, int, float], Workload]


@pytest.mark.parametrize(
    ("seed", "policy", "gate_share", "kv_tokens", "host_kv_tokens", "tokens", "latency_s"),
    [
        (0, "fcfs", 0.0, 640, 0, (648, 3926, 3169, 437765), 6.1208989051492155),
        (1, "lpm", 0.0, 900, 0, (797, 3426, 2431, 325023), 2.636688823462173),
        (2, "plas", 0.8, 1500, 0, (601, 2288, 2880, 399656), 4.230111362148986),
        (3, "rwa", 0.8, 640, 0, (920, 2540, 2606, 324589), 4.628001796865915),
        (4, "oracle", 0.8, 900, 4000, (773, 2628, 3159, 449969), 3.2313021664759933),
    ],
)
def test_steps_are_known(
    seed: int,
    policy: PolicyName,
    gate_share: float,
    kv_tokens: int,
    host_kv_tokens: int,
    tokens: tuple[int, int, int, int],
    latency_s: float,
    costs: SimCosts,
    draw: Draw,
) -> None:
    """Steps, their prompt tokens, decoded tokens and tokens of KV read; mean latency."""
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
    totals = outcome.engines[0]
    found = (totals.steps, totals.prefill_tokens, totals.decode_tokens, totals.kv_tokens)
    assert found == tokens
    mean_s = sum(one.latency_s for one in outcome.programs) / len(outcome.programs)
    assert mean_s == pytest.approx(latency_s, rel=1e-9)

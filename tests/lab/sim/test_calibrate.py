"""Costs of a real engine: a sweep over two random layers."""

import dataclasses
from functools import partial

import anyio
import pytest

from agentrt.base.config import EngineConfig
from agentrt.base.errors import InternalError, UsageError
from agentrt.base.ids import RequestId
from agentrt.lab.sim.calibrate import BATCHES, alike, calibrate, line_through, points_of, slope_of
from agentrt.lab.sim.costs import StepWork
from agentrt.lab.sim.fit import ObservedSteps
from agentrt.lab.sim.step_log import StepLog
from agentrt.protocol.step_output import StepRecord


def record(prefill_tokens: int, *requests: int) -> StepRecord:
    return StepRecord(0, 0.0, 1.0, prefill_tokens, 0, tuple(RequestId(at) for at in requests))


def test_shares_follow_from_the_rules() -> None:
    """Chunks of 100 under a budget of 150: two prompts of 120 tokens, then both decode."""
    prompts = {RequestId(1): 120, RequestId(2): 120}
    log = StepLog(prompts, {}, chunk_tokens=100, step_tokens=150)
    first = log.work_of(record(150, 1, 2))
    assert (first.decode_tokens, first.kv_tokens) == (0, 150)
    assert first.pairs == 100 * 50 + 50 * 25
    second = log.work_of(record(90, 1, 2))
    assert (second.decode_tokens, second.kv_tokens) == (2, 240)
    third = log.work_of(record(0, 1, 2))
    assert (third.prefill_tokens, third.decode_tokens, third.kv_tokens) == (0, 2, 242)


def test_steps_by_other_rules_are_noticed() -> None:
    log = StepLog({RequestId(1): 120}, {}, chunk_tokens=100, step_tokens=150)
    with pytest.raises(InternalError, match="64 prompt tokens"):
        log.work_of(record(64, 1))


def test_points_fit_the_engine() -> None:
    points = points_of(window_tokens=600, kv_tokens=4096, most_running=8)
    assert {one.batch for one in points} == {1, 2, 4, 8}
    assert max(one.prompt_tokens for one in points) == 512
    assert all(one.batch * one.prompt_tokens <= 4096 for one in points)
    assert len(points_of(0, 1 << 20, 64)) > len(BATCHES) * 4


def test_like_steps_count_as_one() -> None:
    """As the middle of them says, whatever disturbed a few."""
    work, other = StepWork(0, 4, 100, 0.0), StepWork(64, 1, 64, 9.0)
    took_s = (0.010, 0.011, 0.012, 0.1, 0.2, 0.009, 0.010)
    found = alike([*(ObservedSteps(1, work, one) for one in took_s), ObservedSteps(1, other, 0.03)])
    assert found == [ObservedSteps(1, work, 0.011), ObservedSteps(1, other, 0.03)]


def test_gaps_grow_with_what_is_told() -> None:
    gaps = [(rows, 2e-4 + rows * 1e-5) for rows in (1, 2, 8, 32)]
    disturbed = [*gaps, *gaps, (8, 0.05)]
    assert line_through(disturbed) == pytest.approx((2e-4, 1e-5))
    assert line_through(gaps[:1]) == (2e-4 + 1e-5, 0.0)
    assert line_through([]) == (0.0, 0.0)


def test_too_small_an_engine() -> None:
    with pytest.raises(UsageError, match="too few for a sweep"):
        points_of(0, 40, 64)


def test_a_real_engine_is_measured(tiny: EngineConfig) -> None:
    """Every part of the costs comes out, and a step takes time."""
    config = dataclasses.replace(tiny, step_tokens=512, prefill_chunk_tokens=128)
    costs = anyio.run(partial(calibrate, config, seconds=0.0, kv_tokens=720))
    assert costs.of(StepWork(64, 4, 300, 2000.0)) > 0
    assert min(costs.submit_s, costs.call_s, costs.call_token_s, costs.deliver_s) >= 0
    assert min(costs.run_s, costs.end_s, costs.gap_of(1)) > 0
    assert costs.tell_s + costs.delta_s > 0
    assert min(costs.close_s, costs.tool_s, costs.form_s) >= 0
    assert 0 <= costs.jump_share <= 1
    assert costs.about["rounds"] == 1
    assert costs.about["samples"] > costs.about["points"]


def test_what_waits_makes_a_step_longer() -> None:
    """Medians by number, of which a disturbed one tells little; fewer than two tell nothing."""
    more = [(waiting, 1e-4 + 5e-6 * waiting) for waiting in range(0, 64, 4) for _ in range(3)]
    assert slope_of([*more, (8, 0.5)]) == pytest.approx(5e-6)
    assert slope_of([(at, -1e-6 * at) for at in range(9)]) == 0.0
    assert slope_of(more[:3]) == 0.0

"""Policies against each other: where they are compared, and what comes out."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from agentrt.analysis.statistics import jain, kendall_tau, mean_interval, ratio_interval
from agentrt.base.errors import UsageError
from agentrt.lab.sim.alone import AMPLE_TOKENS
from agentrt.lab.sim.arms import SimArm, arms_named
from agentrt.lab.sim.command import study_of
from agentrt.lab.sim.flags import SweepFlags
from agentrt.lab.sim.service import service_of
from agentrt.lab.sim.study import Study, StudyPoint
from agentrt.lab.sim.sweep import Sweep, sweep, to_json
from agentrt.lab.sim.sweep_page import sweep_page
from agentrt.lab.workloads import Piece, ProgramTrace, TraceCall
from agentrt.scheduler.estimates.step_model import StepTime

FLAGS = SweepFlags(
    workload="react,map-reduce,debate", programs=30, tenants=2, scale="output=0.05,count=0.3"
)
SLOWDOWN = 8.0
KV_TOKENS = 1000


@cache
def study() -> Study:
    """One mix for all tests, so that what was computed once is kept."""
    return study_of(FLAGS)


@cache
def small_sweep() -> Sweep:
    """Two arms at the rate where fcfs is slow."""
    where = study().operating_point(kv_share=0.33, slowdown=SLOWDOWN, kv_tokens=KV_TOKENS, seeds=2)
    return sweep(study(), arms_named("fcfs,rwa"), where)


def test_the_rate_is_where_fcfs_is_slow() -> None:
    where = small_sweep().operating
    assert [one.kv_tokens for one in where.found] == [KV_TOKENS] * 2
    assert all(0.7 * SLOWDOWN < one.slowdown < 1.4 * SLOWDOWN for one in where.found)
    fcfs = small_sweep().points["fcfs"]
    assert [point.rate for point in fcfs] == [one.rate for one in where.found]


def test_memory_follows_the_working_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """A share of what would be kept with memory for all; never less than the largest request."""
    asked: list[tuple[int, float, int]] = []
    point = small_sweep().points["fcfs"][0]

    def measured(_: Study, arm: SimArm, rate: float, seed: int, kv_tokens: int) -> StudyPoint:
        assert arm.name == "fcfs"
        asked.append((seed, rate, kv_tokens))
        kept = 30_000.0 if kv_tokens == AMPLE_TOKENS else 9_000.0
        return replace(point, slowdown=np.array([10.0]), working_set_tokens=kept)

    monkeypatch.setattr(Study, "point", measured)
    where = study().operating_point(kv_share=1 / 3, slowdown=10, seeds=2)
    assert where.kv_tokens == 10_000, "by the mix, not by what is under way with so little memory"
    full = study().full_rate
    assert asked == [(0, full, AMPLE_TOKENS), (0, full, 10_000), (1, full, 10_000)]
    least = study().operating_point(kv_share=1e-4, slowdown=10).kv_tokens
    assert study().largest_tokens(0) <= least < study().largest_tokens(0) + 64
    given = study().operating_point(kv_share=1 / 3, slowdown=10, kv_tokens=4096)
    assert (given.kv_tokens, given.ample) == (4096, None)


def test_the_working_set_is_that_of_the_time_in_which_programs_came() -> None:
    """What goes on after the last arrival is no sign of more programs under way at once."""
    point = small_sweep().points["fcfs"][0]
    kept = study().alone(0).kept_tokens
    assert point.working_set_tokens < kept.sum()
    burst = study().point(arms_named("fcfs")[0], 1000.0, 0, KV_TOKENS)
    assert burst.working_set_tokens < kept.sum(), "not all of a draw is under way before it came"
    assert burst.working_set_tokens > 0.3 * kept.sum()


def test_what_knows_programs_is_better() -> None:
    """With too little memory, at the rate where fcfs is slow: learned order and gate help much."""
    found = small_sweep()
    assert found.ratio("rwa", "fcfs").value < 0.9
    assert found.tail_ratio("rwa", "fcfs").value < 1.0


def test_all_arms_did_the_same_work() -> None:
    for seed in (0, 1):
        points = [points[seed] for points in small_sweep().points.values()]
        assert len({point.rate for point in points}) == 1
        assert len({point.sums["output_tokens"] for point in points}) == 1
        assert all((point.slowdown > 0.3).all() for point in points)
        assert all(0.5 < point.fairness <= 1 for point in points)


def test_a_sweep_is_written() -> None:
    found = small_sweep()
    told = json.loads(json.dumps(to_json(found, {"costs": "half-cpu"})))
    assert [one["what"] for one in told["targets"]] == [one.what for one in found.targets()]
    assert len(told["arms"]["rwa"]["seeds"]) == 2
    assert len(told["arms"]["rwa"]["seeds"][0]["latency_s"]) == 27  # the first tenth does not count
    assert len(told["curves"]["fcfs"]) == 5
    page = sweep_page(found, {"costs": "<half>"})
    assert page.count("<svg") == 5
    assert "&lt;half&gt;" in page
    assert "<script" not in page


def test_slowdown_at_higher_rates_is_higher() -> None:
    slow = [float(point.slowdown.mean()) for point in small_sweep().curves["fcfs"]]
    assert slow[0] < slow[2] < slow[4]


def test_programs_in_bursts_are_slower_at_the_same_rate() -> None:
    (fcfs,) = arms_named("fcfs")
    rate = 0.5 * study().full_rate
    even = study().point(fcfs, rate, 0, KV_TOKENS)
    bursts = study_of(replace(FLAGS, bursts=8.0)).point(fcfs, rate, 0, KV_TOKENS)
    assert bursts.sums["output_tokens"] == even.sums["output_tokens"]
    assert bursts.slowdown.mean() > 1.5 * even.slowdown.mean()


def test_arms_have_names() -> None:
    plain, gated, known, open_ = arms_named("fcfs, fcfs+gate,rwa,rwa-gate")
    assert (plain.scheduler.policy, plain.scheduler.gate_share) == ("fcfs", 0.0)
    assert gated.scheduler.gate_share == known.scheduler.gate_share == 0.8
    assert (open_.name, open_.scheduler.gate_share) == ("rwa-gate", 0.0)


@pytest.mark.parametrize("names", ["", "srpt", "fcfs,fcfs", "rwa+door"])
def test_names_that_are_none(names: str) -> None:
    with pytest.raises(UsageError, match=r"there is no policy|names a policy twice"):
        arms_named(names)


def test_a_point_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentrt.lab.sim.study._MOST_RATES", 1.5)
    with pytest.raises(UsageError, match="are no point"):
        study().operating_point(kv_share=0.0, slowdown=10)
    with pytest.raises(UsageError, match="Give more programs"):
        study().operating_point(kv_share=0.33, slowdown=1e6, kv_tokens=KV_TOKENS)


def test_service_counts_what_is_shared_once() -> None:
    """Two calls over one text: the second has its own words to compute, not the text again."""
    text = Piece("text", 1000)
    calls = [
        TraceCall(name, (("user", (text, Piece(name, 10))),), 1, site="ask")
        for name in ("one", "two")
    ]
    program = ProgramTrace("pair", 0, tuple(calls), ("one", "two"))
    step = StepTime(base_s=0.0, prefill_s=1e-3, decode_s=0.0, kv_s=0.0)
    assert service_of(program, step) == {"one": pytest.approx(1.01), "two": pytest.approx(0.01)}


def test_figures() -> None:
    assert mean_interval([2.0]).low == 2.0
    two = mean_interval([1.0, 3.0])
    assert (two.value, two.low < 0, two.high > 4) == (2.0, True, True)
    assert ratio_interval([0.5, 2.0]).value == pytest.approx(1.0)
    assert ratio_interval([0.5, 2.0]).low > 0
    assert jain([3.0, 3.0]) == 1.0
    assert kendall_tau([1, 2, 3], [2, 4, 9]) == 1.0
    assert kendall_tau([1, 2, 3], [9, 4, 2]) == -1.0

"""Runs that cannot end in time are refused when they begin; a tenth of them is tried."""

from collections.abc import Callable
from typing import Any

import pytest

from agentrt.scheduler import Refuse
from agentrt.scheduler.admission.hopeless import MIN_RUNS, PROBE_EVERY

Make = Callable[..., Any]


def ran(
    world: Make, job: Any, deadline_s: float | None, past: int = MIN_RUNS, **config: Any
) -> Any:
    jobs = [job(1.0, (4.0, 2.0), deadline_s=deadline_s)]
    one = world(known=jobs, past=past, **config)
    one.run(jobs)
    return one, jobs[0]


def test_a_hopeless_run_is_refused_and_told_why(world: Make, job: Any) -> None:
    one, refused = ran(world, job, 3.0)
    assert refused.refused
    assert refused.began_at_s is None
    (decision,) = [d for _, d in one.decisions if isinstance(d, Refuse)]
    assert decision.refusal.left_s == pytest.approx(3.0)
    assert decision.refusal.expected_s == pytest.approx(6.0)
    assert decision.refusal.runs == MIN_RUNS
    assert not one.state.runs
    assert not one.state.ready


@pytest.mark.parametrize(
    "case",
    [
        {"deadline_s": 6.5},
        {"deadline_s": None},
        {"deadline_s": 3.0, "past": MIN_RUNS - 1},
        {"deadline_s": 3.0, "refuse_hopeless": False},
    ],
    ids=["it may end", "no deadline", "too few past runs", "not wanted"],
)
def test_others_are_not(world: Make, job: Any, case: dict[str, Any]) -> None:
    _, done = ran(world, job, **case)
    assert not done.refused
    assert done.ended_at_s == pytest.approx(7.0)


def test_one_of_ten_is_tried(world: Make, job: Any) -> None:
    """Else a machine that has become faster would never be noticed."""
    jobs = [job(1.0 + 10 * n, (4.0, 2.0), deadline_s=3.0) for n in range(3 * PROBE_EVERY)]
    one = world(known=jobs)
    one.run(jobs)
    tried = [n for n, done in enumerate(jobs) if not done.refused]
    assert tried == [PROBE_EVERY - 1, 2 * PROBE_EVERY - 1, 3 * PROBE_EVERY - 1]


def test_the_expected_path_is_told(world: Make, job: Any) -> None:
    one = world()
    one.run([job(100.0 * n, (4.0, 2.0)) for n in range(12)])
    one.run([job(5000.0, (4.0, 2.0), deadline_s=3.0)])
    (decision,) = [d for _, d in one.decisions if isinstance(d, Refuse)]
    path = decision.refusal.path
    assert [site for site, _ in path] == ["gen p.py:2", "gen p.py:3"]
    assert [seconds for _, seconds in path] == pytest.approx([4.0, 2.0])

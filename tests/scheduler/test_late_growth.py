"""Memory that a longer run needs later: shorter runs may have it until then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.scheduler.admission.growth import LateGrowth

Make = Callable[..., Any]
KV = 1250
"""At a share of 0.8 a thousand tokens may be set aside."""

GROWING = st.lists(st.tuples(st.floats(0.1, 50.0), st.floats(1.0, 900.0)), max_size=8)


@settings(max_examples=200, derandomize=True)
@given(growing=GROWING, seconds=st.floats(0.0, 60.0))
def test_each_run_grows_evenly_until_its_end(
    growing: list[tuple[float, float]], seconds: float
) -> None:
    expected = sum(tokens * max(0.0, 1.0 - seconds / rest_s) for rest_s, tokens in growing)
    assert LateGrowth(growing).after(seconds) == pytest.approx(expected, abs=1e-6)


def test_a_run_of_unknown_length_lends_nothing() -> None:
    assert LateGrowth([(0.0, 500.0)]).after(0.0) == 0.0


@pytest.mark.parametrize(
    ("policy", "took_s", "began_at_s"),
    [("rwa", 1.0, 1.1), ("rwa", 9.0, 11.0), ("fcfs", 1.0, 11.0)],
)
def test_a_shorter_run_has_what_a_longer_one_needs_later(
    world: Make, job: Any, policy: str, took_s: float, began_at_s: float
) -> None:
    """After a second the long run has grown by a tenth of 600 tokens, after nine by nine."""
    jobs = [job(1.0, (10.0,), 900, "long"), job(1.1, (took_s,), 300, "short")]
    one = world(KV, jobs, policy=policy)
    jobs[0].tokens = 300  # what it has now; it is known to come to 900
    one.run(jobs)
    assert jobs[1].began_at_s == pytest.approx(began_at_s)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    drawn=st.lists(
        st.tuples(
            st.floats(0.0, 20.0),
            st.lists(st.floats(0.1, 8.0), min_size=1, max_size=3),
            st.sampled_from([150, 300, 450, 700, 1400]),
            st.sampled_from([1.0, 0.4]),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_every_run_gets_through(world: Make, job: Any, drawn: Any) -> None:
    jobs = [
        job(at_s, tuple(took_s), tokens, f"p{took_s}{tokens}") for at_s, took_s, tokens, _ in drawn
    ]
    one = world(KV, jobs)
    for done, (*_, share) in zip(jobs, drawn, strict=True):
        done.tokens = int(share * done.tokens)  # past runs came to more
    one.run(jobs)
    assert all(done.ended_at_s is not None for done in jobs)
    gate = one.state.admission
    assert not any((gate.held, gate.running, gate.active))

"""Admission control by what a replay knows: true needs, and admissions that are taken back."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

Make = Callable[..., Any]
KV = 1250
"""At a share of 0.8 a thousand tokens may be set aside."""


def known(job: Any, at_s: float, took_s: tuple[float, ...], tokens: int, **more: Any) -> Any:
    """A job whose needs a replay knows."""
    return job(
        at_s,
        took_s,
        tokens,
        f"p{took_s}",
        true_service_s=sum(took_s),
        true_kv_tokens=tokens,
        **more,
    )


def served(world: Make, jobs: Sequence[Any], policy: str = "clairvoyant") -> Any:
    one = world(KV, () if policy == "clairvoyant" else jobs, policy=policy)
    one.run(jobs)
    return one


def test_a_run_commits_what_it_truly_needs(world: Make, job: Any) -> None:
    """Nothing is learned of either: by what is true they fit side by side, or do not."""
    for tokens, began_at_s in ((500, 1.1), (700, 11.0)):
        jobs = [known(job, 1.0, (10.0,), tokens), known(job, 1.1, (10.0,), 500)]
        served(world, jobs)
        assert jobs[1].began_at_s == pytest.approx(began_at_s)


def test_a_run_commits_half_of_the_growth_that_is_known(world: Make, job: Any) -> None:
    """It has 300 tokens and is known to come to 900: 600 of the thousand."""
    for tokens, began_at_s in ((400, 1.1), (410, 11.0)):
        jobs = [known(job, 1.0, (10.0,), 300), known(job, 1.1, (10.0,), tokens)]
        jobs[0].true_kv_tokens = 900
        served(world, jobs)
        assert jobs[1].began_at_s == pytest.approx(began_at_s)


def test_an_admitted_run_gives_way_between_two_generations(world: Make, job: Any) -> None:
    def jobs() -> list[Any]:
        return [known(job, 1.0, (4.0, 4.0, 4.0), 900), known(job, 2.0, (1.0,), 900)]

    waits, yields = jobs(), jobs()
    served(world, waits, policy="oracle")
    assert waits[1].began_at_s == pytest.approx(13.0), "an admitted run goes on"
    one = served(world, yields)
    assert yields[1].began_at_s == pytest.approx(5.0), "at the end of the first generation"
    assert yields[0].ended_at_s == pytest.approx(14.0)
    gate = one.state.admission
    assert not gate.held
    assert not gate.returning
    assert not gate.running


def test_a_run_gives_way_to_shorter_ones_alone(world: Make, job: Any) -> None:
    jobs = [known(job, 1.0, (2.0, 2.0), 900), known(job, 1.5, (9.0,), 900)]
    served(world, jobs)
    assert jobs[0].ended_at_s == pytest.approx(5.0)
    assert jobs[1].began_at_s == pytest.approx(5.0)


def test_nothing_is_reserved_for_what_waits_long(world: Make, job: Any) -> None:
    """A bound has no mercy: short runs overtake a long one for as long as they come."""
    jobs = [known(job, 1.0, (2.0,), 600), known(job, 1.1, (50.0,), 900)]
    jobs += [known(job, 1.2 + at, (2.0,), 600) for at in range(300)]
    served(world, jobs)
    assert jobs[1].began_at_s > jobs[-1].began_at_s


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    drawn=st.lists(
        st.tuples(
            st.floats(0.0, 20.0),
            st.lists(st.floats(0.1, 8.0), min_size=1, max_size=3),
            st.sampled_from([150, 450, 700, 1400]),
            st.sampled_from([0.0, 0.5, 3.0]),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_every_run_gets_through(world: Make, job: Any, drawn: Any) -> None:
    jobs = [
        known(job, at_s, tuple(took_s), tokens, gap_s=gap_s)
        for at_s, took_s, tokens, gap_s in drawn
    ]
    one = served(world, jobs)
    assert all(done.ended_at_s is not None for done in jobs)
    gate = one.state.admission
    assert not any((gate.held, gate.returning, gate.running, gate.active))

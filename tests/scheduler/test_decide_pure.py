"""Deciding leaves the state as it is: what follows from a decision is taken in by `apply` alone."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.scheduler import State
from agentrt.scheduler.admission.hopeless import MIN_RUNS, hopeless_refusal
from tests.scheduler.likeness import decide_alike, differences

Make = Callable[..., Any]
KV = 800
TOOK_S = st.floats(0.1, 8.0)

JOBS = st.lists(
    st.fixed_dictionaries(
        {
            "at_s": st.floats(0.0, 15.0),
            "took_s": st.lists(TOOK_S, min_size=1, max_size=3).map(tuple),
            "tokens": st.sampled_from([150, 450, 700, 1400]),
            "template": st.sampled_from(["a", "b", "c"]),
            "tenant": st.sampled_from(["", "one", "other"]),
            "deadline_s": st.sampled_from([None, None, 3.0, 12.0]),
            "gap_s": st.sampled_from([0.0, 0.5, 3.0]),
            "priority": st.sampled_from([0, 0, 1]),
            "declares": st.booleans(),
        }
    ),
    min_size=1,
    max_size=8,
)


PLAYS = given(
    drawn=JOBS,
    informed=st.booleans(),
    holds=st.booleans(),
    policy=st.sampled_from(["fcfs", "rwa", "plas", "lpm"]),
)


@settings(max_examples=8, deadline=None, derandomize=True)
@PLAYS
def test_deciding_leaves_the_state_as_it_is(world: Make, job: Any, **play: Any) -> None:
    play_and_compare(world, job, **play)


@pytest.mark.slow
@settings(max_examples=30, deadline=None, derandomize=True)
@PLAYS
def test_deciding_leaves_many_states_as_they_are(world: Make, job: Any, **play: Any) -> None:
    play_and_compare(world, job, **play)


def play_and_compare(
    world: Make, job: Any, drawn: Any, informed: bool, holds: bool, policy: str
) -> None:
    jobs = [job(**one) for one in drawn]
    one = world(KV, jobs if informed else (), policy=policy)
    one.decide = decide_alike
    one.state.admission.benefit.pays = holds
    one.run(jobs)
    assert all(done.ended_at_s is not None for done in jobs)


def test_an_open_gate_is_taken_in_with_the_verdicts(world: Make, job: Any) -> None:
    one = world(KV)
    gate = one.state.admission
    gate.benefit.pays = False
    one.decide = decide_alike
    one.run([job(1.0), job(2.0)])
    assert not gate.closed


def test_asking_whether_a_run_is_hopeless_counts_nothing(world: Make, job: Any) -> None:
    jobs = [job(1.0, (4.0, 2.0), deadline_s=100.0)]
    one = world(known=jobs, past=MIN_RUNS)
    one.run(jobs, until_s=2.0)
    (run,) = one.state.runs.values()
    run.deadline_at_s = 3.0
    root = next(iter(run.nodes.values()))
    found = [hopeless_refusal(root) for _ in range(3 * MIN_RUNS)]
    assert found[0] is not None
    assert found == [found[0]] * len(found)
    assert "refused" not in root.estimates.known_at_depth(root.depth).histograms


@pytest.mark.parametrize("part", ["closed", "order of a table", "what a place learned", "sharing"])
def test_states_that_differ_are_told_apart(world: Make, job: Any, part: str) -> None:
    def state() -> State:
        one = world(KV)
        one.run([job(1.0, (3.0,), 200), job(1.0, (3.0,), 300, "b")], until_s=2.0)
        found: State = one.state
        return found

    one, other = state(), state()
    assert differences(one, other) == []
    if part == "closed":
        other.admission.closed = False
    elif part == "order of a table":
        other.runs = dict(reversed(other.runs.items()))
    elif part == "what a place learned":
        other.estimates.site("p").observe("refused", 1.0)
    else:
        first, second = other.runs.values()
        first.footprints = second.footprints
    assert differences(one, other)

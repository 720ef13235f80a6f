"""What is expected of a run before past ones tell, and while they are few."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agentrt.base.ids import NodeId, RunId
from agentrt.protocol.events import NodeDeclared, RunStarted
from agentrt.scheduler import Admit, Decision
from agentrt.scheduler.admission.kv_prior import MIN_RUNS, declared_tokens, expected_tokens
from agentrt.scheduler.estimates.estimates import Estimates
from agentrt.scheduler.estimates.histogram import DecayedHistogram
from agentrt.scheduler.runs.fair_share import FairShare
from agentrt.scheduler.runs.run import NodeState, RunState

Make = Callable[..., Any]
LIMIT, KV = 1000, 1250

TOKENS = st.integers(0, 5000)
NODES = st.lists(st.tuples(TOKENS, st.integers(0, 600), st.integers(0, 2)), max_size=6)
PEAKS = st.lists(st.floats(1.0, 1e4), max_size=20)


def nodes_of(drawn: list[tuple[int, int, int]]) -> list[NodeState]:
    """Generations by prompt, most output and fork; fork 0 is none."""
    run = RunState.begin(
        RunStarted(RunId("0" * 16), "p", "p.py", 0.0, 0), Estimates(), FairShare().begin_run("")
    )
    found = []
    for order, (prompt_tokens, max_tokens, fork) in enumerate(drawn):
        node_id = NodeId(f"r/{order}")
        event = NodeDeclared(
            run.run_id,
            node_id,
            "generate",
            f"g{order}",
            None,
            (),
            "p.py:1",
            0.0,
            fork_of=NodeId(f"fork {fork}") if fork else None,
            model="default",
            prompt_tokens=prompt_tokens,
            max_tokens=max_tokens,
        )
        found.append(NodeState.declare(run, event, order))
    return found


def learned(values: list[float]) -> DecayedHistogram | None:
    found = DecayedHistogram()
    for value in values:
        found.add_value(value)
    return found if values else None


@settings(derandomize=True, max_examples=100)
@given(NODES, PEAKS, st.floats(0, 1e4))
def test_it_lies_between_what_is_learned_and_what_is_declared(
    drawn: list[tuple[int, int, int]], peaks: list[float], elsewhere: float
) -> None:
    past, nodes = learned(peaks), nodes_of(drawn)
    prompts, whole = declared_tokens(nodes)
    found = expected_tokens(past, elsewhere, nodes)
    assert found >= prompts, "these are known"
    prior = whole or elsewhere
    sides = [prior, *([past.mean] if past is not None else [])]
    if prior:
        assert min(sides) - 1e-6 <= found <= max(*sides, prompts) + 1e-6
    if past is not None and len(peaks) >= MIN_RUNS:
        assert found == pytest.approx(max(prompts, past.mean))


@settings(derandomize=True, max_examples=100)
@given(NODES, st.floats(1.0, 1e4))
def test_each_run_moves_it_towards_what_runs_came_to(
    drawn: list[tuple[int, int, int]], peak: float
) -> None:
    nodes = nodes_of(drawn)
    prompts, _ = declared_tokens(nodes)
    true = max(prompts, peak)
    off = [
        abs(expected_tokens(learned([peak] * n), 0.0, nodes) - true) for n in range(MIN_RUNS + 2)
    ]
    assert all(later <= earlier + 1e-6 for earlier, later in pairwise(off[1:]))
    assert off[-1] == pytest.approx(0.0, abs=1e-6)


@settings(derandomize=True, max_examples=60)
@given(NODES, st.tuples(TOKENS, st.integers(0, 600), st.integers(0, 2)), PEAKS)
def test_more_that_is_declared_is_never_less_that_is_expected(
    drawn: list[tuple[int, int, int]], more: tuple[int, int, int], peaks: list[float]
) -> None:
    assume(declared_tokens(nodes_of(drawn))[1] > 0)  # else other programs stand for it
    past = learned(peaks)
    fewer = expected_tokens(past, 0.0, nodes_of(drawn))
    assert expected_tokens(past, 0.0, nodes_of([*drawn, more])) >= fewer - 1e-6


def test_branches_of_a_fork_share_their_prompt() -> None:
    assert declared_tokens(nodes_of([(1000, 50, 1)] * 16)) == (1000, 1000 + 16 * 50)
    assert declared_tokens(nodes_of([(1000, 50, 0)] * 3)) == (3000, 3150)


def test_an_output_counts_as_its_site_had_it() -> None:
    (node,) = nodes_of([(100, 500, 0)])
    node.estimates.observe("output_tokens", 40.0)
    assert declared_tokens([node]) == (100.0, 140.0)
    node.estimates.observe("output_tokens", 4000.0)
    assert declared_tokens([node]) == (100, 600), "it may not put out more"


@pytest.mark.parametrize("past", [0, 1, 2, 3])
def test_a_burst_of_unknown_programs_is_not_let_in_at_once(
    world: Make, job: Any, past: int
) -> None:
    """Each needs 400 of the 1000 that may be set aside: two run, whatever is known of them."""
    jobs = [job(1.0 + n / 100, (5.0,), 400, "a", declares=True) for n in range(6)]
    one = world(KV, jobs, past=past)
    one.run(jobs)
    assert [round(done.began_at_s) for done in jobs] == [1, 1, 6, 6, 11, 11]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    drawn=st.lists(
        st.tuples(st.floats(0.0, 10.0), st.sampled_from([150, 300, 450, 700, 1400])),
        min_size=2,
        max_size=12,
    )
)
def test_from_the_first_run_on_memory_is_not_overcommitted(
    world: Make, job: Any, drawn: Any
) -> None:
    """Nothing is known of any program; each needs what its one generation declares."""
    jobs = [job(at_s, (3.0,), tokens, f"p{tokens}", declares=True) for at_s, tokens in drawn]
    one = world(KV, ())

    def check(here: Any, decision: Decision, now_s: float) -> None:
        gate = here.state.admission
        if isinstance(decision, Admit):
            inside = [run.run_id for run in gate.running]
            inside += [v.run_id for v in decision.decisions if v.admitted]
            needed = sum(jobs[here.number(run_id)].tokens for run_id in inside)
            assert needed <= LIMIT or len(inside) == 1

    one.before = check
    one.run(jobs)
    assert all(done.ended_at_s is not None for done in jobs)

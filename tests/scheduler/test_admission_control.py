"""The admission gate: what it lets in, what it holds, who passes, and that all get through."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentrt.scheduler import Admit, Decision
from agentrt.scheduler.admission.controller import IDLE_S, RESERVE_AFTER_PATHS, RESERVE_AFTER_S
from agentrt.scheduler.admission.kv_need import kv_need
from agentrt.scheduler.order.order import QUANTUM_S

Make = Callable[..., Any]
LIMIT = 1000
KV = 1250
"""At a share of 0.8 a thousand tokens may be set aside."""

JOBS = st.lists(
    st.tuples(
        st.floats(0.0, 20.0),
        st.lists(st.floats(0.1, 8.0), min_size=1, max_size=3),
        st.sampled_from([150, 300, 450, 700, 1000, 1400]),
        st.sampled_from([0.0, 0.0, 0.5, 3.0]),
    ),
    min_size=1,
    max_size=14,
)


def jobs_of(drawn: Any, job: Any) -> list[Any]:
    """A template for each kind of job, so that what is known of it is exact."""
    return [
        job(at_s, tuple(took_s), tokens, f"p{took_s}{tokens}", gap_s=gap_s)
        for at_s, took_s, tokens, gap_s in drawn
    ]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(drawn=JOBS, informed=st.booleans(), policy=st.sampled_from(["fcfs", "rwa", "plas"]))
def test_every_run_gets_through(
    world: Make, job: Any, drawn: Any, informed: bool, policy: str
) -> None:
    jobs = jobs_of(drawn, job)
    one = world(KV, jobs if informed else (), policy=policy)
    one.run(jobs)
    assert all(done.ended_at_s is not None for done in jobs)
    gate = one.state.admission
    assert not gate.held
    assert not gate.running
    assert not gate.active
    assert not one.state.requests


@settings(max_examples=60, deadline=None, derandomize=True)
@example(drawn=[(0.0, [3.0], 700, 0.0), (0.0, [1.0, 1.0], 450, 3.0), (0.0, [2.0], 700, 0.0)])
@given(drawn=JOBS)
def test_what_is_set_aside_stays_within_the_memory(world: Make, job: Any, drawn: Any) -> None:
    """But for a run that is let in alone."""
    jobs = jobs_of(drawn, job)
    one = world(KV, jobs)

    def check(here: Any, decision: Decision, now_s: float) -> None:
        if not isinstance(decision, Admit):
            return
        gate = here.state.admission
        committed = gate.committed_tokens("default", now_s)
        limit = gate.limit_tokens("default", now_s)
        assert limit <= LIMIT
        for verdict in decision.decisions:
            need = kv_need(here.state.runs[verdict.run_id], "default", LIMIT)
            if verdict.admitted:
                alone = committed == 0.0
                committed += need.entry_tokens
                assert committed <= limit + 1e-6 or alone
            else:
                assert need.entry_tokens > limit - committed or committed > 0.0

    one.before = check
    one.run(jobs)


def test_a_run_that_does_not_fit_waits_and_a_small_one_passes(world: Make, job: Any) -> None:
    jobs = [
        job(1.0, (10.0,), 700, "a"),
        job(1.1, (10.0,), 700, "b"),
        job(1.2, (1.0,), 200, "c"),
    ]
    one = world(KV, jobs, policy="fcfs")
    one.run(jobs)
    assert [done.began_at_s for done in jobs] == [1.0, 11.0, 1.2]
    told = {(v.run_id[-1], v.admitted): (at_s, dict(v.terms)) for at_s, v in one.admissions()}
    assert told["1", False] == (
        1.1,
        {
            "held_s": 0.0,
            "peak_tokens": 700,
            "entry_tokens": 700,
            "committed_tokens": 700,
            "limit_tokens": LIMIT,
        },
    )
    at_s, terms = told["1", True]
    assert (at_s, terms["held_s"], terms["committed_tokens"]) == (11.0, pytest.approx(9.9), 0.0)


def test_each_is_told_once_that_it_waits(world: Make, job: Any) -> None:
    jobs = [job(1.0, (5.0,), 900, "a"), *[job(1.0 + n / 10, (5.0,), 900, "a") for n in (1, 2, 3)]]
    one = world(KV, jobs)
    one.run(jobs)
    held = [v.run_id for _, v in one.admissions() if not v.admitted]
    assert sorted(held) == sorted(set(held))
    assert len(held) == 3


def test_a_host_tier_gives_room(world: Make, job: Any) -> None:
    jobs = [job(1.0, (5.0,), 900, "a"), job(1.1, (5.0,), 900, "a")]
    one = world(KV, jobs, host_kv_tokens=5000)  # counted up to the device's own size
    one.run(jobs)
    assert [done.began_at_s for done in jobs] == [1.0, 1.1]
    jobs = [job(1.0, (5.0,), 900, "a") for _ in range(3)]
    one = world(KV, jobs, host_kv_tokens=5000)
    one.run(jobs)
    assert sorted(done.began_at_s for done in jobs) == [1.0, 1.0, 6.0]


@pytest.mark.parametrize("gate", [{"kv_tokens": 0}, {"kv_tokens": KV, "gate_share": 0.0}])
def test_without_memory_or_share_there_is_no_gate(
    world: Make, job: Any, gate: dict[str, Any]
) -> None:
    jobs = [job(1.0, (5.0,), 900, "a") for _ in range(5)]
    one = world(known=jobs, **gate)
    one.run(jobs)
    assert {done.began_at_s for done in jobs} == {1.0}
    assert not one.admissions()


def test_a_run_that_was_let_in_goes_on_though_it_outgrew_its_peak(world: Make, job: Any) -> None:
    jobs = [job(1.0, (5.0, 5.0), 900, "a"), job(1.5, (5.0,), 600, "b")]
    expected = [job(0.0, (10.0,), 200, "a"), job(0.0, (5.0,), 600, "b")]
    one = world(KV, expected)
    one.run(jobs)
    assert jobs[0].ended_at_s == 11.0, "it is not held between its generations"
    assert jobs[1].began_at_s == 11.0, "what it really needs counts, once that is more"


def test_the_oldest_gets_a_reservation_and_others_pass_only_beside_it(
    world: Make, job: Any
) -> None:
    """Small runs keep coming: without a reservation the large one waits for all of them."""
    small = [job(1.0 + n * 2.0, (4.0,), 600, "s", priority=1) for n in range(40)]
    large = job(2.0, (1.0,), 1000, "l")
    jobs = [*small, large]
    one = world(KV, jobs)
    one.run(jobs)
    waited_s = large.began_at_s - large.at_s
    assert 10.0 < waited_s <= 10.0 + 4.0 + 1e-6, (
        "ten times its path, then until the one that ran has ended"
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    drawn=st.lists(
        st.tuples(
            st.floats(0.1, 10.0),
            st.sampled_from([0.2, 0.5, 3.0, 5.0]),
            st.sampled_from([150, 300, 600, 1000]),
            st.integers(0, 2),
        ),
        min_size=12,
        max_size=30,
    ),
    policy=st.sampled_from(["fcfs", "rwa", "plas"]),
)
def test_nobody_makes_a_reserved_run_wait_longer(
    world: Make, job: Any, drawn: Any, policy: str
) -> None:
    """With exact estimates it begins when it could as it got its reservation, or before."""
    jobs = [
        job(at_s, (took_s,), tokens, f"p{took_s}{tokens}", priority=priority)
        for at_s, took_s, tokens, priority in drawn
    ]
    one = world(KV, jobs, policy=policy)
    bounds: dict[int, float] = {}

    def check(here: Any, decision: Decision, now_s: float) -> None:
        reserved = reserved_on_paper(jobs, now_s)
        if isinstance(decision, Admit) and reserved is not None:
            bounds.setdefault(reserved, begins_on_paper(jobs, jobs[reserved], now_s))

    one.before = check
    one.run(jobs)
    for number, bound_s in bounds.items():
        assert jobs[number].began_at_s <= bound_s + 0.01


def reserved_on_paper(jobs: list[Any], now_s: float) -> int | None:
    """The job that has waited longest, once that is ten times what it takes, and a little more."""
    waiting = [at for at, job in enumerate(jobs) if job.at_s <= now_s and job.began_at_s is None]
    if not waiting:
        return None
    first = min(waiting, key=lambda at: jobs[at].at_s)
    long_s = max(RESERVE_AFTER_S, RESERVE_AFTER_PATHS * sum(jobs[first].took_s))
    return first if now_s - jobs[first].at_s > 1.01 * long_s else None


def begins_on_paper(jobs: list[Any], reserved: Any, now_s: float) -> float:
    """When there is room for a job if none begins before it: each other ends when it will end."""
    running = [one for one in jobs if one.began_at_s is not None and one.ended_at_s > now_s]
    free = LIMIT - sum(one.tokens for one in running)
    begins_s = now_s
    for one in sorted(running, key=lambda one: one.ended_at_s):
        if reserved.tokens <= free:
            break
        begins_s = one.ended_at_s
        free += one.tokens
    return begins_s


def test_a_run_that_waits_for_long_gives_its_place_back(world: Make, job: Any) -> None:
    """It waits for a person: whoever comes next does not wait with it."""
    jobs = [job(1.0, (1.0, 1.0), 900, "a", gap_s=60.0), job(1.5, (2.0,), 900, "b")]
    one = world(KV, jobs)
    one.run(jobs)
    assert jobs[1].began_at_s == pytest.approx(2.0 + IDLE_S)
    assert jobs[0].ended_at_s == pytest.approx(63.0), "it goes on as if nothing had been"


def test_a_short_gap_keeps_the_place(world: Make, job: Any) -> None:
    jobs = [job(1.0, (1.0,) * 4, 900, "a", gap_s=0.9 * IDLE_S), job(1.5, (2.0,), 900, "b")]
    one = world(KV, jobs)
    one.run(jobs)
    assert jobs[1].began_at_s == jobs[0].ended_at_s


def test_the_gate_follows_the_policy(world: Make, job: Any) -> None:
    jobs = [
        job(1.0, (3.0,), 900, "first"),
        job(1.1, (30.0,), 900, "long"),
        job(1.2, (1.0,), 900, "short"),
    ]
    order = {}
    for policy in ("fcfs", "rwa"):
        again = [job(j.at_s, j.took_s, j.tokens, j.template) for j in jobs]
        one = world(KV, again, policy=policy)
        one.run(again)
        order[policy] = [j.template for j in sorted(again, key=lambda j: j.began_at_s)]
    assert order == {"fcfs": ["first", "long", "short"], "rwa": ["first", "short", "long"]}


def test_a_tenant_that_had_more_comes_after_one_that_had_less(world: Make, job: Any) -> None:
    greedy = [job(1.0 + n / 100, (2.0,), 900, "g", tenant="greedy") for n in range(6)]
    modest = [job(4.0, (2.0,), 900, "g", tenant="modest")]
    one = world(KV, [*greedy, *modest], policy="fcfs")
    one.run([*greedy, *modest])
    before = [j for j in greedy if j.began_at_s < modest[0].began_at_s]
    assert len(before) == 2, f"it comes next, though it came last (quantum {QUANTUM_S} s)"


def test_a_held_generation_that_is_cancelled_leaves_the_gate(world: Make, job: Any) -> None:
    jobs = [job(1.0, (5.0,), 900, "a"), job(1.1, (5.0,), 900, "a")]
    one = world(KV, jobs)
    one.run(jobs, until_s=2.0)
    held = list(one.state.admission.held)
    assert len(held) == 1
    from agentrt.protocol.events import NodeFinished, RunFinished

    run = held[0]
    node = next(iter(run.held))
    one.handle([NodeFinished(run.run_id, node.node_id, "cancelled", 2.0)])
    assert not one.state.admission.held
    assert not run.waiting
    one.handle([RunFinished(run.run_id, "cancelled", 2.0)])
    assert not one.state.admission.is_due(2.0)

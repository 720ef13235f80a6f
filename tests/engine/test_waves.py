"""Policies on the real engine: who is let in, when, with whom, and what is told of it."""

from dataclasses import replace

import pytest

from agentrt.base.ids import RequestId, RunId
from agentrt.protocol.backend import SchedulingInfo

PREFIX = [(7 * at) % 251 for at in range(64)]
OUTPUT = 32


def asked(engine, number, tokens, *, run="run", max_tokens=OUTPUT, **known):
    request = engine.request(number, tokens, run=run, max_tokens=max_tokens)
    facts = SchedulingInfo(
        RequestId(number),
        demanded=True,
        run_id=RunId(run),
        **{"run_started_at_s": 1.0, "waiting": 1, "true_rest_s": 1.0, **known},
    )
    return replace(request, info=facts)


def branches(engine, count, **known):
    """A fork: the same prefix, then ten tokens of each branch's own."""
    for branch in range(count):
        own = [branch + 100, *range(200, 209)]
        yield asked(engine, branch, [*PREFIX, *own], **known)


def let_in(served):
    """Who was let in, step by step, steps without anybody left out."""
    by_step = [[one.request_id for one in done.admissions] for done in served.steps]
    return [step for step in by_step if step]


def prefilled(served):
    return sum(done.step.prefill_tokens for done in served.steps if done.step)


@pytest.mark.parametrize("policy", ["fcfs", "rwa"])
def test_a_fork_that_fits_comes_in_together_behind_its_prefix(policy, build, engine):
    core = build(policy=policy)
    for request in branches(engine, 8):
        core.submit(request)
    served = engine.drain(core)
    assert let_in(served) == [[0], [1, 2, 3, 4, 5, 6, 7]]
    assert prefilled(served) == 64 + 8 * 10
    assert core.forwards == OUTPUT + 1


def test_a_fork_that_does_not_fit_comes_in_waves(build, engine):
    """Each branch grows to three pages behind the four of the prefix: three at a time fit."""
    core = build(kv_pages=4 + 3 * 3)
    for request in branches(engine, 8, output_tokens=float(OUTPUT)):
        core.submit(request)
    served = engine.drain(core)
    assert let_in(served) == [[0], [1, 2], [3, 4, 5], [6, 7]]
    assert sum(end.ledger.preemptions for end in served.ends.values()) == 0
    assert prefilled(served) == 64 + 8 * 10, "nothing twice, the prefix once"
    causes = [dict(one.passed_over) for done in served.steps for one in done.admissions]
    assert causes[1] == {"prefix": 1}
    assert causes[3]["pages"] >= OUTPUT - 2

    blind = build(kv_pages=4 + 3 * 3)
    for request in branches(engine, 8):
        blind.submit(request)
    crowded = engine.drain(blind)
    assert sum(end.ledger.preemptions for end in crowded.ends.values()) > 0, "what waves spare"
    assert prefilled(crowded) > prefilled(served)


@pytest.mark.parametrize(("policy", "first"), [("rwa", [0, 2]), ("fcfs", [0, 1])])
def test_branches_go_before_what_stands_between_them(policy, first, build, engine):
    core = build(policy=policy, max_running=2)
    core.submit(engine.request(9, PREFIX[:20], max_tokens=1))
    engine.drain(core)
    for number, (run, rank_s) in enumerate((("a", 3.0), ("b", 2.0), ("a", 1.0))):
        start = [number + 100] * 16 if run == "b" else PREFIX[:16]
        core.submit(asked(engine, number, [*start, number], run=run, rank_s=rank_s))
    assert let_in(engine.drain(core))[0] == first


def test_places_are_kept_one_step_for_branches_that_wait_for_their_prefix(build, engine):
    for chunk, expected in ((512, [[0], [1, 2]]), (32, [[0], [3]])):
        core = build(policy="rwa", max_running=3, prefill_chunk_tokens=chunk)
        for request in branches(engine, 3, rest_s=1.0):
            core.submit(request)
        core.submit(asked(engine, 3, [9] * 30, run="other", rest_s=64.0))
        served = engine.drain(core)
        assert let_in(served)[:2] == expected, "no longer than a step"


def test_who_computes_a_prefix_that_somebody_urgent_needs_is_as_urgent(build, engine):
    long = [*PREFIX, *PREFIX]
    core = build(policy="rwa", step_tokens=32, prefill_chunk_tokens=32)
    core.submit(asked(engine, 0, [*long, 1], run="slow", priority=-1, max_tokens=1))
    engine.drain(core, most_steps=1)
    core.submit(asked(engine, 1, [77] * 200, run="between", priority=0, max_tokens=1))
    core.submit(asked(engine, 2, [*long, 2], run="urgent", priority=1, max_tokens=1))
    served = engine.drain(core)
    ended = sorted(served.ends, key=lambda number: served.ends[number].ledger.finished_at_s)
    assert ended == [2, 1, 0]
    assert served.ends[2].ledger.cached_tokens == 128


@pytest.mark.parametrize(
    ("policy", "first"),
    [("fcfs", 1), ("lpm", 1), ("plas", 2), ("rwa", 2), ("oracle", 2), ("clairvoyant", 2)],
)
def test_the_short_program_goes_first_where_the_policy_says_so(policy, first, build, engine):
    core = build(policy=policy, max_running=1)
    core.submit(asked(engine, 0, PREFIX[:20], run="busy", max_tokens=4))
    engine.drain(core, most_steps=2)
    long = {"rest_s": 40.0, "true_rest_s": 40.0, "attained_s": 40.0, "run_started_at_s": 1.0}
    short = {"rest_s": 0.2, "true_rest_s": 0.2, "attained_s": 0.1, "run_started_at_s": 2.0}
    core.submit(asked(engine, 1, [5] * 20, run="long", **long))
    core.submit(asked(engine, 2, [6] * 20, run="short", **short))
    served = engine.drain(core)
    admissions = [one for done in served.steps for one in done.admissions]
    assert [one.request_id for one in admissions] == [first, 3 - first]
    placed = admissions[0]
    assert (placed.policy, placed.position, placed.waiting) == (policy, 0, 1)
    assert placed.passed_over == (("slots", 2),)
    assert placed.waited_s == pytest.approx(0.002)
    terms = dict(placed.terms)
    assert terms["uncached_tokens"] == 20.0
    if policy == "rwa":
        assert terms["rest_s"] == 0.2
        assert terms["level"] < dict(admissions[1].terms)["level"]


def test_chunks_of_prompts_are_given_in_the_order_too(build, engine):
    core = build(policy="rwa", step_tokens=32, prefill_chunk_tokens=32, max_running=4)
    core.submit(asked(engine, 0, [3] * 300, run="long", rest_s=64.0, max_tokens=1))
    engine.drain(core, most_steps=2)
    core.submit(asked(engine, 1, [4] * 60, run="short", rest_s=1.0, max_tokens=1))
    served = engine.drain(core)
    ledgers = {number: end.ledger for number, end in served.ends.items()}
    assert ledgers[1].finished_at_s < ledgers[0].finished_at_s
    assert ledgers[1].prefill_chunks == 2


def test_what_was_told_last_orders_who_waits(build, engine):
    core = build(policy="rwa", max_running=1)
    core.submit(asked(engine, 0, PREFIX[:20], run="busy", max_tokens=4))
    core.submit(asked(engine, 1, [5] * 20, run="one", rest_s=1.0))
    core.submit(asked(engine, 2, [6] * 20, run="two", rest_s=16.0))
    engine.drain(core, most_steps=2)
    told = SchedulingInfo(RequestId(2), demanded=True, run_id=RunId("two"), rest_s=0.1)
    core.update((told, SchedulingInfo(RequestId(99), demanded=True)))
    served = engine.drain(core)
    assert let_in(served) == [[2], [1]]


def test_the_oracle_refuses_what_is_no_replay(build, engine):
    core = build(policy="oracle")
    core.submit(engine.request(1, PREFIX))
    end = engine.drain(core).ends[1]
    assert (end.reason, end.error.type) == ("failed", "UsageError")
    assert "does not tell what its run will need" in end.error.message


def test_a_step_tells_what_its_attention_read(build, engine):
    core = build()
    core.submit(engine.request(1, PREFIX[:20], max_tokens=3))
    core.submit(engine.request(2, PREFIX[30:40], max_tokens=3))
    served = engine.drain(core)
    assert [done.step.kv_tokens for done in served.steps if done.step] == [30, 32, 34]


@pytest.mark.parametrize("overlap", ["off", "on"])
def test_admissions_come_with_their_own_step(overlap, build, engine):
    core = build(overlap=overlap, max_running=2)
    for number in range(4):
        core.submit(engine.request(number, [number + 1] * 20, max_tokens=3))
    served = engine.drain(core)
    for done in served.steps:
        assert {one.request_id for one in done.admissions} <= set(done.step.requests)
    assert sorted(number for step in let_in(served) for number in step) == [0, 1, 2, 3]


@pytest.mark.parametrize("wanting", [{"max_running": 1}, {"kv_pages": 6}])
def test_what_nobody_waits_for_makes_way(wanting, build, engine):
    alone = build()
    alone.submit(engine.request(1, PREFIX[:40], max_tokens=30))
    expected = engine.drain(alone).ids(1)

    core = build(**wanting)
    core.submit(engine.request(1, PREFIX[:40], max_tokens=30, demanded=False))
    served = engine.drain(core, most_steps=10)
    core.submit(engine.request(2, [9] * 50, max_tokens=4))
    engine.drain(core, served, most_steps=4)
    assert 2 in served.ends
    engine.drain(core, served)
    assert served.ids(1) == expected
    assert served.ends[1].ledger.preemptions == 1
    assert served.ends[2].ledger.queue_s == 0.0


def test_what_somebody_waits_for_does_not(build, engine):
    core = build(max_running=1)
    core.submit(asked(engine, 1, PREFIX[:40], max_tokens=30, priority=-1))
    engine.drain(core, most_steps=10)
    core.submit(asked(engine, 2, [9] * 50, run="other", max_tokens=4, priority=1))
    served = engine.drain(core)
    assert served.ends[1].ledger.preemptions == 0


def test_what_made_way_does_not_come_back_before_what_it_made_way_for(build, engine):
    core = build(kv_pages=12)
    core.submit(engine.request(1, [1] * 70, max_tokens=20))
    core.submit(engine.request(2, [2] * 20, max_tokens=90, demanded=False))
    served = engine.drain(core, most_steps=3)
    core.submit(engine.request(3, [3] * 120, max_tokens=4))
    engine.drain(core, served)
    assert served.ends[2].ledger.preemptions == 1
    ended = sorted(served.ends, key=lambda number: served.ends[number].ledger.finished_at_s)
    assert ended == [1, 3, 2]


@pytest.mark.parametrize(("policy", "loser"), [("fcfs", 2), ("rwa", 1)])
def test_who_gives_up_its_pages_is_the_least_urgent(policy, loser, build, engine):
    """And not who has produced least, which only decides among those as urgent."""
    core = build(policy=policy, kv_pages=6)
    long = {"rest_s": 64.0, "run_started_at_s": 1.0}
    short = {"rest_s": 0.5, "run_started_at_s": 2.0}
    core.submit(asked(engine, 1, [1] * 30, run="long", max_tokens=40, **long))
    served = engine.drain(core, most_steps=8)
    core.submit(asked(engine, 2, [2] * 30, run="short", max_tokens=30, **short))
    engine.drain(core, served)
    ledgers = {number: served.ends[number].ledger for number in (1, 2)}
    assert ledgers[loser].preemptions > 0
    assert ledgers[3 - loser].preemptions == 0

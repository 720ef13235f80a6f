"""Prompts that are only expected: computed while nothing else is, and evicted before anything."""

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrt.base.ids import RequestId
from agentrt.engine.scheduling.ahead import AHEAD_TOKENS
from agentrt.protocol.backend import HoleFill

LONG = 600


def prompt(number, tokens=LONG):
    return [(number * 37 + 5 * at) % 250 for at in range(tokens)]


def core_of(engine, folder, **more):
    return engine.hash_core(folder, **{"kv_pages": 1024, "eos_bias": -9.0, **more})


def expected(engine, number, token_ids):
    return replace(engine.request(number, token_ids, complete=False, demanded=False), ahead=True)


def own_steps(served, number):
    return [
        done.step
        for done in served.steps
        if done.step is not None and RequestId(number) in done.step.requests
    ]


def test_it_is_computed_and_ends_without_output(tokenizer_dir, engine):
    core = core_of(engine, tokenizer_dir)
    core.submit(expected(engine, 1, prompt(1)))
    served = engine.drain(core)
    end = served.ends[1]
    whole = (LONG - 1) // 16 * 16
    assert (end.reason, end.ledger.output_tokens) == ("stop", 0)
    assert (end.ledger.prompt_tokens, end.ledger.cached_tokens) == (whole, 0)
    assert max(step.prefill_tokens for step in own_steps(served, 1)) == AHEAD_TOKENS
    core.submit(engine.request(2, [*prompt(1), 7, 8], max_tokens=3))
    assert engine.drain(core).ends[2].ledger.cached_tokens == whole


def test_no_request_has_it_in_its_steps(tokenizer_dir, engine):
    core = core_of(engine, tokenizer_dir)
    core.submit(expected(engine, 1, prompt(1)))
    core.submit(engine.request(2, prompt(2, 40), max_tokens=30))
    core.submit(engine.request(3, prompt(3), demanded=False, max_tokens=4))
    core.submit(engine.request(4, prompt(4), complete=False))
    served = engine.drain(core)
    assert {step.requests for step in own_steps(served, 1)} == {(RequestId(1),)}
    others = max(
        at for at, one in enumerate(served.steps) if one.step and 1 not in one.step.requests
    )
    assert served.steps[others + 1].step.requests == (RequestId(1),), "it comes last of all"
    core.cancel(RequestId(4), "over")
    engine.drain(core)


def test_between_steps_it_holds_nothing(tokenizer_dir, engine):
    core = core_of(engine, tokenizer_dir)
    core.submit(expected(engine, 1, prompt(1)))
    core.step()
    pool, tree = core.allocator.pool, core.allocator.tree
    assert tree.evictable_pages == AHEAD_TOKENS // 16
    assert pool.free_pages + tree.evictable_pages == pool.total_pages
    core.submit(engine.request(2, prompt(2, 40), max_tokens=2))
    assert core.step().step.requests == (RequestId(2),), "it is not in the way"


def test_nothing_is_evicted_for_it(tokenizer_dir, engine):
    core = core_of(engine, tokenizer_dir, kv_pages=48)
    core.submit(engine.request(1, prompt(1), max_tokens=2))
    engine.drain(core)
    core.submit(expected(engine, 2, prompt(2)))
    served = engine.drain(core)
    computed = served.ends[2].ledger.prompt_tokens
    assert 0 < computed <= (48 - LONG // 16) * 16
    core.submit(engine.request(3, [*prompt(1), 7], max_tokens=2))
    assert engine.drain(core).ends[3].ledger.cached_tokens >= LONG - 16


def test_it_is_evicted_first(tokenizer_dir, engine):
    """Though it is the latest use of the cache."""
    core = core_of(engine, tokenizer_dir, kv_pages=48)
    core.submit(engine.request(1, prompt(1, 320), max_tokens=2))
    engine.drain(core)
    core.submit(expected(engine, 2, prompt(2, 321)))
    assert engine.drain(core).ends[2].ledger.prompt_tokens == 320
    core.submit(engine.request(3, prompt(3, 320), max_tokens=2))
    engine.drain(core)
    core.submit(engine.request(4, [*prompt(1, 320), 7], max_tokens=2))
    assert engine.drain(core).ends[4].ledger.cached_tokens >= 304


def test_what_was_used_is_kept_like_anything_else(tokenizer_dir, engine):
    core = core_of(engine, tokenizer_dir, kv_pages=48)
    core.submit(expected(engine, 1, prompt(1, 321)))
    engine.drain(core)
    core.submit(engine.request(2, prompt(1, 322), max_tokens=2))
    assert engine.drain(core).ends[2].ledger.cached_tokens >= 304
    core.submit(engine.request(3, prompt(3, 160), max_tokens=2))
    engine.drain(core)
    core.submit(expected(engine, 4, prompt(4, 161)))
    engine.drain(core)
    core.submit(engine.request(5, prompt(5, 160), max_tokens=2))
    engine.drain(core)
    core.submit(engine.request(6, prompt(1, 322), max_tokens=2))
    assert engine.drain(core).ends[6].ledger.cached_tokens >= 304


def test_a_prefix_that_others_use_is_none_of_it(tokenizer_dir, engine):
    """Only what it computed itself is given up first."""
    core = core_of(engine, tokenizer_dir, kv_pages=48)
    core.submit(engine.request(1, prompt(1, 160), max_tokens=2))
    engine.drain(core)
    core.submit(expected(engine, 2, [*prompt(1, 160), *prompt(2, 161)]))
    ledger = engine.drain(core).ends[2].ledger
    assert (ledger.cached_tokens, ledger.prompt_tokens) == (160, 320)
    core.submit(engine.request(3, prompt(3, 450), max_tokens=2))
    engine.drain(core)
    core.submit(engine.request(4, prompt(1, 162), max_tokens=2))
    assert engine.drain(core).ends[4].ledger.cached_tokens >= 144


def test_it_can_be_cancelled_at_any_step(tokenizer_dir, engine):
    core = core_of(engine, tokenizer_dir)
    for number in range(1, 5):
        core.submit(expected(engine, number, prompt(number)))
        for _ in range(number):
            core.step()
        core.cancel(RequestId(number), "over")
        ledger = engine.drain(core).ends[number].ledger
        assert ledger.prompt_tokens == number * AHEAD_TOKENS
    assert not core.has_work()


def test_what_is_cached_or_too_short_takes_no_step(tokenizer_dir, engine):
    core = core_of(engine, tokenizer_dir)
    core.submit(engine.request(1, prompt(1), max_tokens=2))
    engine.drain(core)
    core.submit(expected(engine, 2, prompt(1)))
    core.submit(expected(engine, 3, prompt(3, 9)))
    served = engine.drain(core)
    assert [one.step for one in served.steps] == [None]
    assert {number: end.reason for number, end in served.ends.items()} == {2: "stop", 3: "stop"}


def test_it_is_incomplete_and_stays_so(tokenizer_dir, engine):
    core = core_of(engine, tokenizer_dir)
    core.submit(replace(expected(engine, 1, prompt(1)), prompt=engine.request(1, [1]).prompt))
    core.submit(expected(engine, 2, prompt(2)))
    core.fill_hole(RequestId(2), HoleFill((1,), complete=True))
    ends = engine.drain(core).ends
    assert [ends[1].reason, ends[2].reason] == ["failed", "failed"]


@st.composite
def traffic(draw):
    """Requests of a few families of prompts, each with the step before which it comes."""
    arrivals = []
    for number in range(1, draw(st.integers(1, 8)) + 1):
        family = draw(st.integers(0, 2))
        shared, own = draw(st.integers(0, 20)) * 16, draw(st.integers(1, 60))
        token_ids = [*prompt(family, shared), *prompt(10 + number, own)]
        arrivals.append((draw(st.integers(0, 30)), number, token_ids, draw(st.integers(1, 9))))
    return arrivals


def steps_until_ends(engine, folder, arrivals, guesses, pages):
    """By request: steps from its arrival to its end, and its output."""
    core = core_of(engine, folder, kv_pages=pages, policy="fcfs")
    served, at, steps, begun = engine.Served(), 0, 0, {}
    last = max(arrivals)[0]
    while core.has_work() or at <= last:
        for _, number, token_ids in [one for one in guesses if one[0] == at]:
            core.submit(expected(engine, number, token_ids))
        for _, number, token_ids, max_tokens in [one for one in arrivals if one[0] == at]:
            begun[number] = steps
            core.submit(engine.request(number, token_ids, max_tokens=max_tokens))
        done = core.step()
        core.clock.advance(0.001)
        at += 1
        if done is None:
            continue
        steps += done.step is not None
        served.see(done)
        for end in done.ends:
            if end.request_id in begun:
                begun[end.request_id] = steps - begun[end.request_id]
    return begun, {number: served.ids(number) for number in begun}


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(traffic(), st.data(), st.sampled_from([64, 256]))
def test_no_request_takes_more_steps(tokenizer_dir, engine, arrivals, data, pages):
    """Right guesses and wrong ones, between two steps, with much memory and with little."""
    guesses = []
    for number in range(101, 101 + data.draw(st.integers(1, 6))):
        if data.draw(st.booleans()):
            token_ids = data.draw(st.sampled_from(arrivals))[2]
        else:
            token_ids = [*prompt(data.draw(st.integers(0, 2)), 160), *prompt(number, 200)]
        guesses.append((data.draw(st.integers(0, 30)), number, token_ids))
    without, plain = steps_until_ends(engine, tokenizer_dir, arrivals, [], pages)
    with_them, outputs = steps_until_ends(engine, tokenizer_dir, arrivals, guesses, pages)
    assert outputs == plain
    assert all(with_them[number] <= steps for number, steps in without.items())


def test_a_request_waits_for_one_chunk_at_most(tokenizer_dir, engine):
    core = core_of(engine, tokenizer_dir)
    core.submit(expected(engine, 1, prompt(1)))
    step = core.begin_step()
    core.submit(engine.request(2, prompt(2, 40), max_tokens=2))
    core.end_step(step)
    assert core.step().step.requests == (RequestId(2),)

"""What is shared is computed once; what runs together runs in the same forwards."""

import pytest

from agentrt.protocol.backend import PrefixHint

PREFIX = [(7 * at) % 251 for at in range(1000)]


def test_eight_branches_prefill_their_prefix_once(build, engine):
    core = build(kv_pages=400, prefill_chunk_tokens=256)
    for branch in range(8):
        core.submit(engine.request(branch, [*PREFIX, branch, 9, 9], max_tokens=4))
    served = engine.drain(core)
    computed = sum(done.step.prefill_tokens for done in served.steps if done.step)
    assert computed == len(PREFIX) + 3 + 7 * 3
    ledgers = [served.ends[branch].ledger for branch in range(8)]
    assert sorted(one.cached_tokens for one in ledgers) == [0, *[1000] * 7]
    assert all(one.recomputed_tokens == 0 for one in ledgers)
    assert core.allocator.pool.tree_pages < 63 + 8 * 2


@pytest.mark.parametrize("prompt_tokens", [5, 40, 300])
def test_nine_samples_take_two_forwards_more_than_their_tokens(prompt_tokens, build, engine):
    core = build()
    most = 10
    before = core.forwards
    for sample in range(9):
        core.submit(
            engine.request(
                sample, PREFIX[:prompt_tokens], max_tokens=most, temperature=1.0, seed=sample
            )
        )
    served = engine.drain(core)
    assert core.forwards - before <= most + 2
    assert len({tuple(served.ids(sample)) for sample in range(9)}) > 1


def test_runs_share_steps(build, engine):
    core = build()
    core.submit(engine.request(1, PREFIX[:30], max_tokens=8, run="one"))
    engine.drain(core, most_steps=3)
    core.submit(engine.request(2, PREFIX[50:90], max_tokens=8, run="two"))
    served = engine.drain(core)
    assert any(done.step and set(done.step.requests) == {1, 2} for done in served.steps)
    mixed = [
        d.step for d in served.steps if d.step and d.step.prefill_tokens and d.step.decode_tokens
    ]
    assert mixed, "a prompt is computed beside a sequence that decodes"


def test_what_was_generated_is_found_by_who_continues_it(build, engine):
    core = build(page_tokens=4)
    core.submit(engine.request(1, PREFIX[:21], max_tokens=20))
    made = engine.drain(core).ids(1)
    follow = [*PREFIX[:21], *made, 5, 6, 7]
    core.submit(engine.request(2, follow, max_tokens=2))
    ledger = engine.drain(core).ends[2].ledger
    assert ledger.cached_tokens == 21 + len(made) - 1


def test_waiting_for_a_prefix_does_not_hold_up_others(build, engine):
    core = build(prefill_chunk_tokens=64)
    core.submit(engine.request(1, PREFIX, max_tokens=2))
    core.submit(engine.request(2, [*PREFIX, 3], max_tokens=2))
    core.submit(engine.request(3, PREFIX[500:510], max_tokens=2))
    served = engine.drain(core, most_steps=3)
    assert 3 in served.ends
    served = engine.drain(core, served)
    assert served.ends[2].ledger.cached_tokens == 1000


def test_a_dropped_prefix_makes_room_first(build, engine):
    core = build(kv_pages=12)
    for number, start in enumerate((0, 200)):
        core.submit(engine.request(number, PREFIX[start : start + 64], max_tokens=1))
        engine.drain(core)
    core.hint(PrefixHint(tuple(PREFIX[200:264]), "drop"))
    core.submit(engine.request(9, PREFIX[600:690], max_tokens=1))
    engine.drain(core)
    for number, start in ((10, 0), (11, 200)):
        core.submit(engine.request(number, PREFIX[start : start + 64], max_tokens=1))
    assert engine.drain(core).ends[10].ledger.cached_tokens == 63

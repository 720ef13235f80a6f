"""What is said of prefixes before they are there, and after."""

import pytest

from agentrt.base.ids import RequestId
from agentrt.kv_cache import EvictionPriority, key_of
from agentrt.protocol.backend import HoleFill, PrefixHint

PROMPT = [(3 * at) % 250 for at in range(160)]


def core_of(engine, folder, **settings):
    return engine.hash_core(folder, **{"kv_pages": 24, "eos_bias": -9.0} | settings)


def kept_tokens(core):
    nodes = [node for node in core.allocator.tree.nodes() if node.priority is EvictionPriority.KEEP]
    return max((16 * len(node.path()[1]) for node in nodes), default=0)


def cached(core, engine, number, prompt):
    core.submit(engine.request(number, prompt, max_tokens=2))
    return engine.drain(core).ends[number].ledger.cached_tokens


def test_a_prompt_around_a_hole_is_kept_as_it_is_computed(tokenizer_dir, engine):
    """It is said when the prompt is sent, before any of it is computed."""
    core = core_of(engine, tokenizer_dir)
    core.submit(engine.request(1, PROMPT, complete=False))
    core.hint(PrefixHint(tuple(PROMPT), "keep", core.clock.now_s() + 5.0))
    assert kept_tokens(core) == 0
    engine.drain(core)
    core.step()
    assert kept_tokens(core) == 144, "its last token is computed with what fills the hole"
    for number in range(2, 8):
        cached(core, engine, number, [number, *PROMPT[:90]])
    core.fill_hole(RequestId(1), HoleFill((1, 2, 3), complete=True))
    served = engine.drain(core)
    assert sum(done.step.prefill_tokens for done in served.steps if done.step) <= 16 + 3
    assert not core.hints.pending


def test_what_never_comes_is_not_looked_for_for_ever(tokenizer_dir, engine):
    core = core_of(engine, tokenizer_dir)
    for number in range(100):
        core.hint(PrefixHint((number, *PROMPT), "keep", 1e9))
    assert len(core.hints.pending) == 64
    core.hint(PrefixHint((5, *PROMPT), "keep", core.clock.now_s() - 1.0))
    core.step()
    assert key_of([5, *PROMPT]) not in core.hints.pending


def test_what_was_kept_on_its_way_is_let_go_too(tokenizer_dir, engine):
    core = core_of(engine, tokenizer_dir)
    cached(core, engine, 1, PROMPT[:64])
    core.hint(PrefixHint(tuple(PROMPT), "keep", core.clock.now_s() + 5.0))
    cached(core, engine, 2, PROMPT)
    core.step()
    assert kept_tokens(core) == 160
    core.clock.advance(6.0)
    core.step()
    assert kept_tokens(core) == 0
    assert not core.hints.kept_until


def test_what_the_host_has_no_room_for_is_not_given_up_here(tokenizer_dir, engine):
    page_bytes = 16 * 2 * 4
    for host_pages, said in ((40, EvictionPriority.DEMOTED), (4, EvictionPriority.NORMAL)):
        core = core_of(engine, tokenizer_dir, host_kv_bytes=host_pages * page_bytes)
        cached(core, engine, 1, PROMPT)
        core.hint(PrefixHint(tuple(PROMPT), "demote"))
        assert {node.priority for node in core.allocator.tree.nodes()} <= {
            said,
            EvictionPriority.NORMAL,
        }
        assert any(node.priority is said for node in core.allocator.tree.nodes())


def test_what_was_fetched_is_kept_for_who_needs_it(tokenizer_dir, engine):
    core = core_of(engine, tokenizer_dir, host_kv_bytes=40 * 16 * 2 * 4)
    cached(core, engine, 1, PROMPT)
    core.hint(PrefixHint(tuple(PROMPT), "demote"))
    core.allocator.tree.evict(24)
    core.hint(PrefixHint(tuple(PROMPT), "prefetch", core.clock.now_s() + 5.0))
    assert kept_tokens(core) == 160


@pytest.mark.parametrize("kind", ["keep", "demote", "drop", "prefetch"])
@pytest.mark.parametrize(
    "token_ids", [(), (-1,) * 40, (2**31,) * 40, (2**70,) * 40, (10**6,) * 5_000]
)
def test_a_hint_of_ids_that_no_token_has_is_of_no_effect(tokenizer_dir, engine, kind, token_ids):
    core = core_of(engine, tokenizer_dir)
    cached(core, engine, 1, PROMPT[:64])
    core.hint(PrefixHint(token_ids, kind, until_s=float("inf"), from_tokens=-5))
    core.step()
    assert cached(core, engine, 2, PROMPT[:64]) >= 48

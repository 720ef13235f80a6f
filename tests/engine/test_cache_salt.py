"""Requests of different salts share no KV; requests of one salt do.

Tokens of the machine depend on every id that its pages hold, so that a page of another salt changes
them.
"""

from array import array

import pytest

from agentrt.base.ids import RequestId
from agentrt.kv_cache import EvictionPriority, PagePool, RadixTree, key_of
from agentrt.protocol.backend import HoleFill, PrefixHint

PROMPT = [(5 * at) % 250 for at in range(160)]


@pytest.fixture
def core(tokenizer_dir, engine):
    return engine.hash_core(tokenizer_dir, kv_pages=200, eos_bias=-9.0)


def ask(core, engine, number, salt, prompt=PROMPT, **options):
    core.submit(engine.request(number, prompt, cache_salt=salt, max_tokens=4, **options))
    served = engine.drain(core)
    return served.ends[number].ledger.cached_tokens, served.ids(number)


def test_a_prefix_is_found_under_its_own_salt_only(core, engine):
    found = [ask(core, engine, at, salt) for at, salt in enumerate(["", "a", "b", "a", "b", ""])]
    assert [cached for cached, _ in found] == [0, 0, 0, 159, 159, 159]
    assert len({tuple(ids) for _, ids in found}) == 1, "a salt changes no token"


def test_salts_do_not_wait_for_each_other(core, engine):
    """Of like prompts at once one is computed and the others wait for it: under one salt."""
    for number, salt in enumerate(["a", "a", "b", "b", ""]):
        core.submit(engine.request(number, PROMPT, cache_salt=salt, max_tokens=4))
    served = engine.drain(core)
    cached = [served.ends[number].ledger.cached_tokens for number in range(5)]
    assert cached == [0, 159, 0, 159, 0]
    assert sum(done.step.prefill_tokens for done in served.steps) == 3 * 160 + 2 * 1
    assert len({tuple(served.ids(number)) for number in range(5)}) == 1


@pytest.mark.parametrize("cut", [1, 3, 15, 16, 17, 40])
def test_a_prompt_that_came_in_pieces_has_the_same_key(cut, core, engine):
    core.submit(engine.request(1, PROMPT[:cut], complete=False, cache_salt="a", max_tokens=4))
    engine.drain(core)
    core.fill_hole(RequestId(1), HoleFill(tuple(PROMPT[cut:]), complete=True))
    engine.drain(core)
    assert ask(core, engine, 2, "b")[0] == 0
    assert ask(core, engine, 3, "a")[0] == 159


def test_hints_are_of_one_salt(core, engine):
    for number, salt in enumerate(["", "a", "b"]):
        ask(core, engine, number, salt, PROMPT[:80])
    core.hint(PrefixHint(tuple(PROMPT[:64]), "keep", cache_salt="a"))
    core.hint(PrefixHint(tuple(PROMPT[:80]), "drop", cache_salt="b"))
    core.hint(PrefixHint(tuple(PROMPT[:80]), "drop", cache_salt="c"))
    marks = sorted(node.priority for node in core.allocator.tree.nodes() if not node.children)
    assert marks == [EvictionPriority.DROP, EvictionPriority.NORMAL, EvictionPriority.NORMAL]
    kept = [n for n in core.allocator.tree.nodes() if n.priority is EvictionPriority.KEEP]
    assert [node.key for node in kept] == [key_of(PROMPT[:64], "a")]


def test_the_host_keeps_salts_apart(tokenizer_dir, engine):
    core = engine.hash_core(
        tokenizer_dir, kv_pages=24, eos_bias=-9.0, host_kv_bytes=60 * 16 * 2 * 4
    )
    ask(core, engine, 1, "a", PROMPT[:128])
    core.hint(PrefixHint(tuple(PROMPT[:128]), "demote", cache_salt="a"))
    core.allocator.tree.evict(24)
    assert ask(core, engine, 2, "b", PROMPT[:128])[0] == 0
    assert ask(core, engine, 3, "a", PROMPT[:128])[0] == 112


def test_a_key_keeps_its_length_and_its_end():
    plain, salted = key_of(PROMPT), key_of(PROMPT, "a")
    assert len(plain) == len(salted)
    assert plain[:16] != salted[:16]
    assert plain[64:] == salted[64:]
    assert salted != key_of(PROMPT, "b")
    assert key_of(PROMPT[:9], "a") + key_of(PROMPT[9:], "a", 9) == salted


def test_salted_prompts_that_agree_by_chance_share_nothing():
    """Mixed with its salt, a token may become what another one becomes with another salt."""
    pool = PagePool(4)
    tree = RadixTree(pool, 16)
    mixed = array("i", key_of(PROMPT[:10], "a"))
    pad = array("i", key_of([0] * 10, "b"))
    other = [one ^ two for one, two in zip(mixed, pad, strict=True)]
    (page,) = pool.allocate(1)
    assert key_of(other, "b") == key_of(PROMPT[:10], "a")
    assert not tree.keep_partial(tree.root, key_of(PROMPT[:10], "a"), page)
    tree.insert(key_of(PROMPT[:16], "a"), [page])
    assert tree.match_partial(tree.root, key_of([*other, 7], "b")) is None
    assert tree.look_up(key_of([*other, 7], "b")).partial_tokens == 0


def test_no_salted_token_equals_an_unsalted_one(core, engine):
    assert min(array("i", key_of(PROMPT[:16]))) >= 0
    for salt in ("a", "b", "c"):
        assert max(array("i", key_of(PROMPT[:16], salt))) < 0
    short = PROMPT[:12]
    found = [ask(core, engine, at, salt, short)[0] for at, salt in enumerate(["", "a", "", "a"])]
    assert found == [0, 0, 11, 0], "the salted part is too short to prove anything"

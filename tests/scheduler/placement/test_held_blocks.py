"""KV events as changes of the prefix map: what it believes is what the engine holds."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.scheduler.placement.held_blocks import (
    ClearedBlocks,
    HeldBlocks,
    KvEvent,
    RemovedBlocks,
    StoredBlocks,
    id_key,
)
from agentrt.scheduler.placement.placer import Placer
from agentrt.scheduler.placement.worker_load import PlacementRequest
from tests.scheduler.placement.naive_blocks import NaiveCache

MAP_TOKENS = 16
"""Tokens of a block of the prefix map."""

PIECES = [tuple(range(100 * n, 100 * n + MAP_TOKENS)) for n in range(3)]
prompts = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map(
    lambda pieces: tuple(token for piece in pieces for token in piece)
)
steps = st.one_of(
    st.tuples(st.sampled_from(["store", "store each", "clear"]), prompts, st.just(0)),
    st.tuples(st.just("remove"), prompts, st.integers(0, 3)),
)


def placer_of(changes_of: HeldBlocks, placer: Placer, events: Sequence[KvEvent]) -> None:
    for one in changes_of.fold(events):
        if one.what == "held":
            placer.hold("a", one.key)
        elif one.what == "cut":
            placer.cut("a", one.key, one.from_bytes)
        else:
            placer.forget("a")


def stored(
    cache: NaiveCache, prompt: tuple[int, ...], *, each: bool = False, salt: str = ""
) -> list[KvEvent]:
    """The events of a prompt that an engine computes, which finds a part of it."""
    begin, size = cache.found(prompt), cache.block_tokens
    ends = range(begin + size, len(prompt) + 1, size)
    names = [cache.name(prompt[:end]) for end in ends]
    cache.held |= {prompt[:end] for end in ends}
    parent = cache.name(prompt[:begin]) if begin else None
    if not each:
        return [StoredBlocks(tuple(names), parent, prompt[begin:], salt)] if names else []
    found: list[KvEvent] = []
    for name, end in zip(names, ends, strict=True):
        found.append(StoredBlocks((name,), parent, prompt[end - size : end], salt))
        parent = name
    return found


def removed(cache: NaiveCache, prompt: tuple[int, ...], pieces: int) -> list[KvEvent]:
    """Events of an engine that evicts a prompt and what continues it, behind some pieces."""
    begin = MAP_TOKENS * min(pieces, len(prompt) // MAP_TOKENS - 1)
    first = prompt[: begin + cache.block_tokens]
    gone = sorted((one for one in cache.held if one[: len(first)] == first), key=len)
    cache.held -= set(gone)
    return [RemovedBlocks((cache.name(one),)) for one in reversed(gone)]


@pytest.mark.parametrize("block_tokens", [1, 8, 16])
@settings(max_examples=60, deadline=None)
@given(todo=st.lists(steps, max_size=15), asked=st.lists(prompts, max_size=4))
def test_the_map_believes_what_the_engine_holds(
    block_tokens: int, todo: list[tuple[str, tuple[int, ...], int]], asked: list[tuple[int, ...]]
) -> None:
    cache, blocks, placer = NaiveCache(block_tokens), HeldBlocks(), Placer()
    placer.add("a")
    for what, prompt, pieces in todo:
        if what == "clear":
            cache.held.clear()
            events: list[KvEvent] = [ClearedBlocks()]
        elif what == "remove":
            events = removed(cache, prompt, pieces)
        else:
            events = stored(cache, prompt, each=what == "store each")
        placer_of(blocks, placer, events)
        for one in [prompt, *asked]:
            held = placer.prefixes.match(id_key(one)).get("a", 0)
            assert held == 4 * cache.found(one)
        assert len(blocks) == len(cache.held)


def test_blocks_larger_than_those_of_the_map_are_cut_whole() -> None:
    cache, blocks, placer = NaiveCache(32), HeldBlocks(), Placer()
    placer.add("a")
    prompt = tuple(range(96))
    placer_of(blocks, placer, stored(cache, prompt))
    placer_of(blocks, placer, [RemovedBlocks((cache.name(prompt[:64]),))])
    assert placer.prefixes.match(id_key(prompt)) == {"a": 4 * 32}


def test_a_block_whose_parent_is_gone_is_found_again_with_it() -> None:
    """An engine may keep what continues a block that it evicted, and find both again."""
    cache, blocks, placer = NaiveCache(16), HeldBlocks(), Placer()
    placer.add("a")
    prompt = tuple(range(64))
    placer_of(blocks, placer, stored(cache, prompt))
    first, rest = cache.name(prompt[:16]), cache.name(prompt[:32])
    placer_of(blocks, placer, [RemovedBlocks((first,))])
    assert placer.prefixes.match(id_key(prompt)) == {}
    placer_of(blocks, placer, [StoredBlocks((first,), None, prompt[:16])])
    assert placer.prefixes.match(id_key(prompt)) == {"a": 64}
    placer_of(blocks, placer, [StoredBlocks((rest,), first, prompt[16:32])])
    placer_of(blocks, placer, [RemovedBlocks((rest,))])
    assert placer.prefixes.match(id_key(prompt)) == {"a": 64}


def test_salts_keep_prefixes_apart_and_shift_them() -> None:
    """The salt stands before the ids, so blocks of the map do not end where those there do."""
    ours = NaiveCache(16)
    blocks, placer = HeldBlocks(), Placer()
    placer.add("a")
    prompt = tuple(range(96))
    plain = stored(ours, prompt)
    salted = [
        StoredBlocks((f"s{at}".encode(),), parent, prompt[16 * at : 16 * at + 16], "tenant")
        for at, parent in enumerate([None, *(f"s{n}".encode() for n in range(5))])
    ]
    placer_of(blocks, placer, [*plain, *salted])
    key = id_key(prompt, "tenant")
    assert placer.prefixes.match(key)["a"] == len(key) - len(key) % 64
    placer_of(blocks, placer, [RemovedBlocks((b"s3", b"s4", b"s5"))])
    held = placer.prefixes.match(key)["a"]
    assert len("tenant") + 4 * 48 - 64 < held <= len("tenant") + 4 * 48
    assert placer.prefixes.match(id_key(prompt)) == {"a": 4 * 96}


def test_what_no_known_prompt_begins_is_left_alone() -> None:
    blocks = HeldBlocks()
    assert blocks.fold([StoredBlocks((2,), 1, (5, 6))]) == []
    assert blocks.fold([RemovedBlocks((2, 9))]) == []
    assert blocks.fold([StoredBlocks((3, 4), None, (5, 6, 7))]) == [], "no whole blocks"
    assert blocks.fold([StoredBlocks((5,), 6, (1,)), StoredBlocks((6,), 5, (1,))]) == []


def test_the_number_of_blocks_is_bounded() -> None:
    blocks = HeldBlocks(most_blocks=100)
    for first in range(0, 1000, 10):
        blocks.fold([StoredBlocks((first,), None, (first,))])
    blocks.fold([StoredBlocks(tuple(range(5000, 5300)), None, tuple(range(300)))])
    assert len(blocks) == 100


def test_a_continuation_whose_blocks_are_gone_goes_by_load() -> None:
    placer, blocks = Placer(), HeldBlocks()
    placer.add("a")
    placer.add("b")
    prompt, longer = tuple(range(4096)), tuple(range(4200))
    placer.send(1, PlacementRequest(id_key(prompt), prompt_tokens=4096, output_tokens=100), "a")
    placer.end(1)
    asked = PlacementRequest(id_key(longer), prompt_tokens=4200)
    placed = placer.place(asked)
    assert placed is not None
    assert (placed.worker, placed.reason) == ("a", "prefix")
    names = tuple(range(1, 257))
    placer_of(blocks, placer, [StoredBlocks(names, None, prompt), RemovedBlocks(names[::-1])])
    placed = placer.place(asked)
    assert placed is not None
    assert placed.worker == "b"

"""The prefix map: what it believes, what it forgets, and how reports correct it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.errors import InternalError, UsageError
from agentrt.scheduler.placement.prefix_map import PrefixMap
from tests.line_count import Lines
from tests.scheduler.placement.naive_map import BLOCK, NaiveMap

LIMIT = 10 * BLOCK
WORKERS = ("a", "b", "c")

# Few letters and parts of whole blocks, so that prompts share prefixes of all lengths.
parts = st.sampled_from([b"aaaa", b"bbbb", b"aaab", b"aaaabbbb", b"ab", b"c"])
keys = st.lists(parts, max_size=8).map(b"".join)
steps = st.one_of(
    st.tuples(st.just("record"), st.sampled_from(WORKERS), keys),
    st.tuples(st.just("cut"), st.sampled_from(WORKERS), keys),
    st.tuples(st.just("forget"), st.sampled_from(WORKERS), keys),
)


def small_map(limit_bytes: int = LIMIT) -> PrefixMap:
    prefixes = PrefixMap(bytes_per_token=1.0, block_bytes=BLOCK)
    for worker in WORKERS:
        prefixes.add(worker, limit_bytes)
    return prefixes


def ended(prefixes: PrefixMap, worker: str, key: bytes) -> Any:
    """A request that came, and has ended."""
    sent = prefixes.record(worker, key)
    prefixes.settle(sent)
    return sent


@settings(max_examples=300, deadline=None)
@given(st.lists(steps, max_size=25), st.lists(keys, max_size=6))
def test_it_equals_a_block_lru(todo: list[tuple[str, str, bytes]], asked: list[bytes]) -> None:
    prefixes, naive = small_map(), NaiveMap(LIMIT)
    sent: dict[str, list[bytes]] = {worker: [] for worker in WORKERS}
    for what, worker, key in todo:
        if what == "record":
            prefixes.record(worker, key)
            naive.record(worker, key)
            sent[worker].append(key)
        elif what == "cut":
            prefixes.cut(worker, key, len(key) // 2)
            naive.cut(worker, key, len(key) // 2)
        else:
            prefixes.forget(worker)
            naive.forget(worker)
            sent[worker] = []
            assert prefixes.held_tokens(worker) == 0
        for other in WORKERS:
            assert prefixes.held_tokens(other) == naive.held_bytes(other) <= LIMIT
        for prompt in [key, *asked]:
            found = prefixes.match(prompt)
            assert found == naive.match(prompt)
            for other, same in found.items():
                assert any(one[:same] == prompt[:same] for one in sent[other]), "never sent there"


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(WORKERS), keys, st.floats(0, 1)), max_size=25))
def test_reports_leave_it_within_what_was_sent(todo: list[tuple[str, bytes, float]]) -> None:
    prefixes, naive = small_map(), NaiveMap(10_000)
    for worker, key, share in todo:
        sent = ended(prefixes, worker, key)
        naive.record(worker, key)
        prefixes.confirm(sent, int(share * sent.believed_bytes))
        bound = naive.match(key)
        assert all(same <= bound[other] for other, same in prefixes.match(key).items())
        assert prefixes.match(key).get(worker, 0) <= prefixes.held_tokens(worker) <= LIMIT
    for worker in WORKERS:
        prefixes.forget(worker)
        assert prefixes.held_tokens(worker) == 0
    assert all(not prefixes.match(key) for _, key, _ in todo)


def test_a_removed_worker_is_gone() -> None:
    prefixes = small_map()
    prefixes.record("a", b"aaaabbbb")
    prefixes.record("b", b"aaaa")
    prefixes.remove("a")
    assert prefixes.match(b"aaaabbbb") == {"b": 4}
    assert prefixes.workers == ("b", "c")
    with pytest.raises(InternalError, match="add"):
        prefixes.record("a", b"aaaa")


def test_a_shortfall_shows_what_else_is_gone() -> None:
    """An engine that lost a prefix has lost all that was used before it."""
    prefixes = small_map(1000)
    ended(prefixes, "a", b"oldest--")
    ended(prefixes, "a", b"lost----")
    ended(prefixes, "a", b"recent--")
    again = ended(prefixes, "a", b"lost----more")
    assert again.believed_bytes == 8
    prefixes.confirm(again, 0)
    assert prefixes.match(b"oldest--") == {}
    assert prefixes.match(b"recent--") == {"a": 8}
    assert prefixes.match(b"lost----more") == {"a": 12}, "it has just been computed again"
    assert prefixes.limit_tokens("a") < 1000, "so much does not fit"


def test_the_limit_comes_back_while_reports_confirm_it() -> None:
    prefixes = small_map(1600)
    ended(prefixes, "a", b"x" * 800)
    prefixes.confirm(ended(prefixes, "a", b"x" * 800), 0)
    lowered = prefixes.limit_tokens("a")
    assert lowered < 1600
    for _ in range(200):
        ended(prefixes, "a", b"y" * 1600)
        prefixes.confirm(ended(prefixes, "a", b"y" * 1600), 1600)
    assert prefixes.limit_tokens("a") == 1600


def test_a_prefix_that_is_being_computed_proves_nothing() -> None:
    """Siblings that come together are computed together: none finds the others' prefix."""
    prefixes = small_map(1000)
    ended(prefixes, "a", b"other---")
    prefixes.record("a", b"shared--one-")
    second = prefixes.record("a", b"shared--two-")
    assert second.believed_bytes == 8
    prefixes.confirm(second, 0)
    assert prefixes.match(b"other---") == {"a": 8}
    assert prefixes.limit_tokens("a") == 1000


def test_the_last_block_of_a_report_is_forgiven() -> None:
    prefixes = small_map(1000)
    ended(prefixes, "a", b"other---")
    ended(prefixes, "a", b"aaaabbbb")
    prefixes.confirm(ended(prefixes, "a", b"aaaabbbb"), 4)
    assert prefixes.match(b"other---") == {"a": 8}


def test_another_capacity_evicts_at_once() -> None:
    prefixes = small_map(1000)
    prefixes.record("a", b"x" * 800)
    prefixes.add("a", 100)
    assert prefixes.match(b"x" * 800) == {"a": 100}


def test_unknown_capacity_is_bounded() -> None:
    prefixes = PrefixMap(bytes_per_token=4.0, block_bytes=64)
    prefixes.add("a")
    for number in range(5):
        prefixes.record("a", number.to_bytes(4) * 250_000)
    assert prefixes.held_tokens("a") <= 1_000_000


def test_the_number_of_nodes_is_bounded() -> None:
    prefixes = PrefixMap(bytes_per_token=1.0, block_bytes=4)
    prefixes.add("a", 10_000_000)
    for number in range(40_000):
        ended(prefixes, "a", number.to_bytes(4))
    assert prefixes.held_tokens("a") == 4 * (1 << 15)
    assert prefixes.match((0).to_bytes(4)) == {}
    assert prefixes.match((39_999).to_bytes(4)) == {"a": 4}


def test_a_match_does_not_read_the_map() -> None:
    """Its cost depends on the prompt alone: so many lines among ten prompts and among 2,000."""

    def lines(prompts: int) -> int:
        prefixes = PrefixMap()
        for worker in WORKERS:
            prefixes.add(worker)
        for number in range(prompts):
            prefixes.record(WORKERS[number % 3], b"system" * 64 + number.to_bytes(4) * 96)
        with Lines("scheduler/placement") as found:
            prefixes.match(b"system" * 64 + (3).to_bytes(4) * 96)
        return sum(found.values())

    assert 0 < lines(2000) <= 1.1 * lines(10)


@pytest.mark.parametrize(("ratio", "block"), [(0.0, 64), (4.0, 0)])
def test_blocks_and_tokens_have_bytes(ratio: float, block: int) -> None:
    with pytest.raises(UsageError, match="positive"):
        PrefixMap(ratio, block)

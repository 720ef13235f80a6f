"""Batches of KV events in all forms in which servers have written them."""

from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.remote.fleet.kv_batch_order import BatchOrder
from agentrt.remote.fleet.kv_event_batch import BatchReader, MalformedBatch
from agentrt.scheduler.placement.held_blocks import ClearedBlocks, RemovedBlocks, StoredBlocks

IDS = [5, 6, 7, 8]


def read(*events: Any, reader: BatchReader | None = None) -> list[Any]:
    payload = msgpack.packb([1.5, list(events), 0])
    return (reader or BatchReader()).read(payload)


def full(**more: Any) -> dict[str, Any]:
    """vLLM's event as a map."""
    row: dict[str, Any] = {
        "type": "BlockStored",
        "block_hashes": [b"x", b"y"],
        "parent_block_hash": None,
    }
    row |= {"token_ids": IDS, "block_size": 2, "lora_id": None, "medium": "GPU", "lora_name": None}
    return row | more


STORED = StoredBlocks((b"x", b"y"), None, (5, 6, 7, 8))
OLD = ["BlockStored", [b"x", b"y"], None, IDS, 2, None]
FORMS: dict[str, Any] = {
    "an array": OLD,
    "an array with a medium": [*OLD, "GPU"],
    "an array of all fields": [*OLD, "GPU", None, [None, None], 0, "full_attention", None],
    "a map": full(),
    "a map of all fields": full(group_idx=0, kv_cache_spec_kind="full_attention"),
    "a map of the least fields": {
        "type": "BlockStored",
        "block_hashes": [b"x", b"y"],
        "token_ids": IDS,
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_stored_blocks_are_read_in_each_form(form: str) -> None:
    assert read(FORMS[form]) == [STORED]


@pytest.mark.parametrize(
    "batch",
    [
        [1.5, [["BlockRemoved", [1, 2]], ["AllBlocksCleared"]]],
        [1.5, [["BlockRemoved", [1, 2], "GPU", 0], ["AllBlocksCleared"]], 0],
        {
            "ts": 1.5,
            "events": [
                {"type": "BlockRemoved", "block_hashes": [1, 2], "medium": None},
                {"type": "AllBlocksCleared"},
            ],
        },
    ],
    ids=["arrays", "with all fields", "maps"],
)
def test_other_events_are_read_in_each_form(batch: Any) -> None:
    found = BatchReader().read(msgpack.packb(batch))
    assert found == [RemovedBlocks((1, 2)), ClearedBlocks()]


@pytest.mark.parametrize(
    "row",
    [
        full(medium="CPU"),
        [*OLD, "CPU_TIER1"],
        full(lora_id=1),
        full(lora_name="adapter"),
        full(token_ids=[[5, 6], [6, 7]]),
        full(token_ids=[5, -1, 2, 3]),
        full(token_ids=[5, 1 << 40, 2, 3]),
        full(block_hashes="xy"),
        full(kv_cache_spec_kind="sliding_window", group_idx=1),
        full(extra_keys=[["image", 3], None]),
        full(extra_keys=[["image", "salt"], None]),
        ["BlockMoved", [1]],
        {"block_hashes": [1]},
        [],
        7,
    ],
    ids=str,
)
def test_what_says_nothing_about_prompts_of_ids_is_left_out(row: Any) -> None:
    assert read(row) == []


@pytest.mark.parametrize(
    "row",
    [
        full(extra_keys=[["tenant"], None]),
        full(cache_salt="tenant"),
        [*OLD, "GPU", {"cache_salt": "tenant", "session_id": "s"}],
    ],
    ids=["vLLM", "SGLang", "SGLang 0.5.18"],
)
def test_a_salt_is_read(row: Any) -> None:
    (found,) = read(row)
    assert found.cache_salt == "tenant"


def test_one_group_with_full_attention_counts() -> None:
    """Groups name their blocks alike, and lose them at other times."""
    reader = BatchReader()
    window = {"group_idx": 0, "kv_cache_spec_kind": "sliding_window"}
    whole = {"group_idx": 1, "kv_cache_spec_kind": "full_attention"}
    more = {"group_idx": 2, "kv_cache_spec_kind": "full_attention"}
    assert read(full(**window), full(**whole), full(**more), reader=reader) == [STORED]
    lost = [["BlockRemoved", [b"x"], "GPU", group] for group in (0, 2, 1)]
    assert read(*lost, ["BlockRemoved", [b"y"], "CPU", 1], reader=reader) == [
        RemovedBlocks((b"x",))
    ]


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 62), 1 << 62) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(0, 9), inner),
    max_leaves=8,
)
names = st.sampled_from(["BlockStored", "BlockRemoved", "AllBlocksCleared"])
odd_events = st.builds(lambda name, rest: [name, *rest], names, st.lists(values, max_size=12))
odd_maps = st.builds(
    lambda name, rest: {"type": name, **rest},
    names,
    st.dictionaries(
        st.sampled_from([*full(), "group_idx", "extra_keys", "kv_cache_spec_kind"]), values
    ).map(lambda row: {key: value for key, value in row.items() if key != "type"}),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(odd_events | odd_maps | values, max_size=4) | values, st.binary(max_size=3))
def test_no_payload_is_another_error(events: Any, rest: bytes) -> None:
    for batch in (events, [1.5, events], {"events": events}):
        payload = msgpack.packb(batch)
        for one in (payload, payload[:-1], payload + rest):
            try:
                assert isinstance(BatchReader().read(one), list)
            except MalformedBatch:
                continue


def test_batches_have_their_place() -> None:
    order = BatchOrder()
    assert order.place(3) == "gap"
    for number in range(5):
        assert order.place_replayed(number, b"%d" % number) == "next"
        order.take(number, b"%d" % number)
    assert order.place(4) == "repeated"
    assert order.place(5) == "next"
    order.take(5, b"5")
    assert order.place(8) == "gap"
    assert order.place_replayed(5, b"5") == "repeated"
    assert order.place_replayed(5, b"other") == "restarted"
    assert order.place(8) == "restarted"
    assert order.taken_to == -1

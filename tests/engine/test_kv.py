"""KV memory: its size, and that what is written is what is read."""

from dataclasses import replace

import pytest
import torch

from agentrt.base.errors import UsageError
from agentrt.base.ids import PageId
from agentrt.engine.batch.batch import pack
from agentrt.engine.batch.input_packing import SequenceSlice
from agentrt.engine.kv.block_tables import BlockTables
from agentrt.engine.kv.cache import KvCache, KvLayout, pages_for

LAYOUT = KvLayout(3, 2, 4, 5, torch.float32, torch.device("cpu"))


def test_a_page_holds_all_layers_in_one_piece():
    kv = KvCache(LAYOUT, 7)
    assert kv.memory.shape == (7, 3, 2, 5, 2, 4)
    assert kv.memory.is_contiguous()
    assert kv.memory[0].numel() * 4 == LAYOUT.page_bytes


@pytest.mark.parametrize(
    ("asked", "pages"),
    [
        ({"kv_pages": 9, "kv_bytes": 0}, 9),
        ({"kv_pages": 0, "kv_bytes": 10 * 960 + 3}, 10),
        ({"kv_pages": 0, "kv_bytes": 0}, 4),
    ],
)
def test_the_pool_is_sized_by_what_was_asked_for(asked, pages):
    assert LAYOUT.page_bytes == 960
    assert pages_for(LAYOUT, max_tokens=20, **asked) == pages


@pytest.mark.parametrize(
    ("device", "step_bytes", "pages"),
    [("cpu", 0, 250), ("cuda", 0, 900), ("cuda", 50 * 960, 900), ("cuda", 300 * 960, 700)],
)
def test_a_gpu_gives_the_cache_all_but_a_tenth_and_a_step(device, step_bytes, pages):
    layout = replace(LAYOUT, device=torch.device(device))
    found = pages_for(
        layout,
        kv_pages=0,
        kv_bytes=0,
        max_tokens=1 << 20,
        step_bytes=step_bytes,
        free_bytes=1000 * 960,
    )
    assert found == pages


def test_memory_that_holds_no_page_is_refused():
    with pytest.raises(UsageError, match="holds no page: one page takes 960 bytes"):
        pages_for(LAYOUT, kv_pages=0, kv_bytes=959, max_tokens=100)


@pytest.mark.parametrize("pages", [1 << 40, 1 << 60])
def test_more_memory_than_there_is_is_refused(pages):
    with pytest.raises(UsageError, match=r"KV memory are more than this machine can map"):
        KvCache(LAYOUT, pages)


def test_what_is_written_is_read_from_its_page():
    kv = KvCache(LAYOUT, 7)
    tables = BlockTables(2, 4, kv)
    pages = [PageId(5), PageId(2), PageId(6)]
    tables.write(1, 0, pages)
    part = SequenceSlice(slot=1, token_ids=[0] * 9, first_position=3, wants_logits=True)
    batch = pack([part], kv, tables)
    key = torch.arange(72.0).view(9, 8)
    kv.write(1, batch.kv_rows, key, -key)
    found, negative = torch.empty(3, 40), torch.empty(3, 40)
    kv.read(1, tables.block_offsets[1, :3], found, negative)
    assert torch.equal(found.view(15, 8)[3:12], key)
    assert torch.equal(negative, -found)
    assert kv.memory[:, 0].count_nonzero() == kv.memory[:, 2].count_nonzero() == 0
    assert batch.logit_rows.tolist() == [8]
    assert batch.fields.positions.tolist() == list(range(3, 12))

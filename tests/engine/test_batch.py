"""What a packed batch tells the device, checked against the block tables, row by row."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentrt.base.ids import PageId
from agentrt.engine.batch.batch import BatchPacker
from agentrt.engine.batch.input_packing import InputFields, InputPacker, SequenceSlice, buffer_words
from agentrt.engine.kv.block_tables import BlockTables
from agentrt.engine.kv.cache import KvCache, KvLayout

PAGE = 4
LAYOUT = KvLayout(2, 1, 2, PAGE, torch.float32, torch.device("cpu"))


@pytest.fixture
def tables():
    made = BlockTables(4, 6, KvCache(LAYOUT, 40))
    made.write(2, 0, [PageId(7), PageId(3), PageId(9)])
    made.write(0, 0, [PageId(7), PageId(5)])
    made.write(3, 0, [PageId(20), PageId(21), PageId(22), PageId(23)])
    return made


def packer(tables, last=(0, 0, 0, 0)):
    return BatchPacker(
        KvCache(LAYOUT, 40), tables, torch.tensor(last), max_tokens=32, max_sequences=4
    )


def part(slot, position, ids, wants=True):
    return SequenceSlice(slot=slot, token_ids=ids, first_position=position, wants_logits=wants)


@pytest.mark.parametrize(
    "parts",
    [
        [part(2, 8, [5])],
        [part(2, 8, [5]), part(0, 4, [6]), part(3, 15, [7])],
        [part(3, 2, [1, 2, 3, 4, 5], wants=False), part(2, 11, [9]), part(0, 0, [8, 8, 8])],
    ],
    ids=["one", "decodes", "mixed"],
)
def test_each_row_knows_its_place(parts, tables):
    batch = packer(tables).pack(parts)
    row = 0
    wanted = []
    for index, one in enumerate(parts):
        assert batch.paged.query_start[index] == row
        for at, token in enumerate(one.token_ids):
            position = one.first_position + at
            page = int(tables.host_table[one.slot, position // PAGE])
            assert batch.fields.token_ids[row] == token
            assert batch.fields.positions[row] == position
            assert batch.fields.slot_mapping[row] == page * PAGE + position % PAGE
            row += 1
        context = one.first_position + len(one.token_ids)
        pages = -(-context // PAGE)
        assert batch.paged.kv_tokens[index] == context
        seen = batch.paged.block_table[index, :pages].tolist()
        assert seen == tables.host_table[one.slot, :pages].tolist()
        wanted += [row - 1] if one.wants_logits else []
    assert batch.paged.query_start[-1] == row == batch.fields.slot_mapping.shape[0]
    assert batch.logit_rows.tolist() == wanted
    assert batch.paged.most_query_tokens == max(len(one.token_ids) for one in parts)
    assert batch.paged.most_kv_tokens == max(
        one.first_position + len(one.token_ids) for one in parts
    )
    assert batch.paged.block_table.dtype == batch.paged.kv_tokens.dtype == torch.int32


SLICES = st.builds(
    SequenceSlice,
    slot=st.integers(0, 4),
    token_ids=st.lists(st.integers(-4, 99), min_size=1, max_size=9),
    first_position=st.integers(0, 30),
    wants_logits=st.booleans(),
)


@given(st.lists(SLICES, min_size=1, max_size=5), st.integers(0, 3), st.integers(0, 60))
def test_the_buffer_holds_each_row_padding_included(slices, padding, padded_tokens):
    pages = np.arange(5 * 10, dtype=np.int32).reshape(5, 10)[:, ::-1]
    slices = [*slices, *[SequenceSlice(4, [0], 0, wants_logits=True)] * padding]
    tokens = [token for one in slices for token in one.token_ids]
    positions = [one.first_position + at for one in slices for at in range(len(one.token_ids))]
    owners = [one.slot for one in slices for _ in one.token_ids]
    mapping = [
        int(pages[slot, position // PAGE]) * PAGE + position % PAGE
        for slot, position in zip(owners, positions, strict=True)
    ]
    mapping[len(mapping) - padding :] = [-1] * padding
    total = max(len(tokens), padded_tokens)
    buffer = np.full(buffer_words(total, len(slices)) + 3, 77)
    packed = InputPacker(pages, PAGE).pack_inputs(buffer, slices, padding, padded_tokens)
    fields = InputFields.split(torch.from_numpy(buffer), total, len(slices))

    more = total - len(tokens)
    assert fields.token_ids.tolist() == tokens + [0] * more
    assert fields.positions.tolist() == positions + [0] * more
    assert fields.slot_mapping.tolist() == mapping + [-1] * more
    assert fields.table_rows.tolist() == [one.slot for one in slices]
    ends = np.cumsum([len(one.token_ids) for one in slices]).tolist()
    assert fields.query_start.tolist() == [0, *ends]
    contexts = [one.first_position + len(one.token_ids) for one in slices]
    assert fields.kv_tokens.tolist() == contexts
    wanted = [end - 1 for one, end in zip(slices, ends, strict=True) if one.wants_logits]
    assert fields.logit_rows.tolist() == wanted + [0] * (len(slices) - len(wanted))
    assert buffer[-3:].tolist() == [77] * 3, "nothing is written behind the buffer"
    assert packed.tokens == total
    assert packed.logits == len(wanted)
    assert packed.max_query_tokens == max(len(one.token_ids) for one in slices)
    assert packed.max_kv_tokens == max(contexts)
    assert packed.has_unknown_tokens == (min(tokens) < 0)


def test_decoding_alone_asks_for_no_numbers_but_its_own(tables):
    """The pages of one sequence are read where they lie: nothing is gathered."""
    made = packer(tables)
    batch = made.pack([part(2, 8, [5])])
    assert batch.paged.block_table.data_ptr() == tables.device_table[2].data_ptr()


def test_the_batch_before_is_whole_while_the_next_is_packed(tables):
    pack = packer(tables).pack
    first = pack([part(2, 8, [5]), part(0, 4, [6])])
    pack([part(3, 2, [1, 2, 3])])
    assert first.fields.token_ids.tolist() == [5, 6]
    assert first.paged.block_table.tolist() == [[7, 3, 9], [7, 5, 0]]


def test_a_token_that_only_the_device_knows_is_named_by_its_slot(tables):
    pack = packer(tables, last=[10, 11, 12, 13]).pack
    batch = pack([part(3, 2, [5, 6, -1 - 3]), part(0, 4, [-1 - 0]), part(2, 9, [8])])
    assert batch.fields.token_ids.tolist() == [5, 6, 13, 10, 8]


def test_rows_of_nobody_store_nothing_and_are_seen_by_nobody(tables):
    """Twice in the same buffers, the second time with more of them."""
    made = packer(tables)
    for runs in ([part(2, 8, [5, 6, 7]), part(0, 4, [6, 8])], [part(3, 15, [7])]):
        for _ in range(2):
            batch = made.pack(runs, padded_sequences=3, padded_tokens=12)
            real = sum(len(one.token_ids) for one in runs)
            padding = 3 - len(runs)
            assert batch.fields.token_ids.shape == batch.fields.positions.shape == (12,)
            assert batch.fields.slot_mapping.shape == (12,)
            assert bool((batch.fields.slot_mapping[:real] >= 0).all())
            assert bool((batch.fields.slot_mapping[real:] == -1).all())
            assert not batch.fields.token_ids[real:].any()
            assert batch.paged.query_start[-1] == real + padding
            assert batch.paged.kv_tokens.tolist()[len(runs) :] == [1] * padding
            assert batch.logit_rows.tolist()[-1] == real + padding - 1

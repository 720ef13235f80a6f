"""Which sequences read a prefix together."""

from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import PageId
from agentrt.engine.batch import shared_prefix
from agentrt.engine.batch.input_packing import SequenceSlice, logit_rows
from agentrt.engine.batch.shared_prefix import SharedPrefixes, find_groups, split_rows
from agentrt.engine.kv.block_tables import BlockTables
from agentrt.engine.kv.cache import KvCache, KvLayout


def groups(rows, own=None, least=2):
    table = np.array(rows, dtype=np.int32)
    own = own or [table.shape[1]] * len(rows)
    return {one.members: one.pages for one in find_groups(table, own, least)}


def test_siblings_share_what_their_tables_begin_with():
    assert groups([[1, 2, 3, 4], [1, 2, 3, 5], [9, 2, 3, 4]]) == {(0, 1): 3}


def test_a_prefix_that_is_too_short_is_left():
    assert groups([[1, 2, 3], [1, 4, 5]]) == {}


def test_the_deeper_groups_win_where_they_save_more():
    near = [[1, 2, *range(10, 18), 50 + at] for at in range(3)]
    far = [[1, 2, *range(20, 28), 60 + at] for at in range(3)]
    assert groups(near + far) == {(0, 1, 2): 10, (3, 4, 5): 10}


def test_the_wide_group_wins_where_it_saves_more():
    rows = [
        [*range(10), 20, 30],
        [*range(10), 20, 31],
        *([*range(10), 40 + n, 0] for n in range(6)),
    ]
    assert groups(rows) == {tuple(range(8)): 10}


def test_pages_that_are_still_written_are_not_shared():
    assert groups([[1, 2, 3, 4], [1, 2, 3, 4]], own=[3, 4]) == {(0, 1): 3}


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.lists(st.integers(0, 2), min_size=6, max_size=6), min_size=1, max_size=8))
def test_groups_are_true_apart_and_worth_it(choices):
    numbers: dict[tuple[int, ...], int] = {}  # a page number stands for all before it, too
    rows = [
        [numbers.setdefault(tuple(row[: at + 1]), len(numbers)) for at in range(6)]
        for row in choices
    ]
    found = groups(rows)
    members = [row for group in found for row in group]
    assert len(members) == len(set(members))
    for group, pages in found.items():
        assert len(group) >= 2
        assert pages >= 2
        assert len({tuple(rows[row][:pages]) for row in group}) == 1
    saved = sum((len(group) - 1) * pages for group, pages in found.items())
    assert saved == most_saved(rows)


def most_saved(rows, depth=0):
    """By trying every node of the tree of prefixes as the place to cut."""
    whole = (len(rows) - 1) * depth if depth >= 2 else 0
    if depth == 6:
        return whole
    parts = [[row for row in rows if row[depth] == page] for page in {row[depth] for row in rows}]
    return max(whole, sum(most_saved(part, depth + 1) for part in parts))


def test_groups_are_kept_while_the_same_sequences_decode():
    layout = KvLayout(1, 1, 1, 16, torch.float32, torch.device("cpu"))
    tables = BlockTables(4, 40, KvCache(layout, 99))
    shared = [PageId(page) for page in range(20)]
    for slot in range(3):
        tables.write(slot, 0, [*shared, PageId(50 + slot)])
    siblings = SharedPrefixes(tables, 16)
    parts = [
        SequenceSlice(0, [1, 1], 320, True),
        *(SequenceSlice(slot, [1], 330, True) for slot in (1, 2)),
    ]
    prefix = siblings.find(parts)
    assert prefix is not None
    assert prefix.members.tolist() == [1, 2]
    assert prefix.member_start.tolist() == [0, 2]
    assert prefix.tokens.tolist() == [320]
    assert prefix.block_table.tolist() == [list(range(20))]
    assert prefix.most_members == 2
    tables.write(1, 21, [PageId(70)])  # it grows
    later = [
        SequenceSlice(0, [1, 1], 322, True),
        *(SequenceSlice(slot, [1], 336, True) for slot in (1, 2)),
    ]
    assert siblings.find(later) is prefix
    tables.write(1, 0, [PageId(80)])  # another sequence
    assert siblings.find(later) is None


def test_groups_of_drafts_of_several_lengths_are_kept():
    """Drafts come and go from step to step; their rows are no other sequences."""
    layout = KvLayout(1, 1, 1, 16, torch.float32, torch.device("cpu"))
    tables = BlockTables(4, 40, KvCache(layout, 99))
    tables.write(1, 0, [PageId(page) for page in range(40)])
    siblings = SharedPrefixes(tables, 16)

    def rows(count, position):
        return [SequenceSlice(1, [1], position + at, True) for at in range(count)]

    three, two = siblings.find(rows(3, 300)), siblings.find(rows(2, 303))
    assert three is not None
    assert two is not None
    assert (three.members.tolist(), two.members.tolist()) == ([0, 1, 2], [0, 1])
    assert siblings.find(rows(3, 305)) is three
    assert siblings.find(rows(2, 308)) is two
    longer = siblings.find(rows(3, 520))
    assert longer is not None
    assert longer.tokens.tolist() == [512]


def test_a_few_rows_are_seen_as_so_many_sequences():
    long = [
        SequenceSlice(1, list(range(9)), 300, wants_logits=True),
        SequenceSlice(2, [1, 2], 90, wants_logits=True),
    ]
    assert split_rows(long, 64) == long
    run = SequenceSlice(3, [5, 6, 7, 8], 300, wants_logits=True)
    rows = split_rows([*long, run, SequenceSlice(4, [9], 400, wants_logits=True)], 64)
    assert rows[:2] == long
    assert [(row.slot, list(row.token_ids), row.first_position) for row in rows[2:]] == [
        *((3, [token], 300 + at) for at, token in enumerate([5, 6, 7, 8])),
        (4, [9], 400),
    ]
    assert [row.wants_logits for row in rows[2:]] == [False, False, False, True, True]
    run.draft_tokens = 2
    assert [row.wants_logits for row in split_rows([run], 64)] == [False, True, True, True]
    assert logit_rows(split_rows([run], 64)) == logit_rows([run]) == [1, 2, 3]
    chunk = SequenceSlice(3, [5, 6], 300, wants_logits=False)
    assert not any(row.wants_logits for row in split_rows([chunk], 64))
    fits = [list(row.token_ids) for row in split_rows([run, chunk], 3)]  # one more than there are
    assert fits == [[5, 6, 7, 8], [5], [6]]


def test_forced_runs_stay_with_their_siblings(build, engine, monkeypatch):
    """Every row of a step in which all decode reads the common prefix with the others."""
    spec = ConstraintSpec("regex", "(?:[ab]xyz){3,6}")
    told = []
    for least in (1 << 20, 8):
        monkeypatch.setattr(shared_prefix, "MIN_TOKENS", least)
        core = build("llama", kernels="reference", page_tokens=4, max_running=8)
        for number in range(4):
            prompt = [*range(40), 50 + number]
            core.submit(
                engine.request(number, prompt, max_tokens=20, constraint=spec if number else None)
            )
        seen: list[Any] = []
        begin = core.executor.runner.attention.begin_batch

        def watched(batch, begin=begin, seen=seen):
            seen.append(batch.paged)
            begin(batch)

        core.executor.runner.attention.begin_batch = watched
        served = engine.drain(core)
        told.append([served.ids(number) for number in range(4)])
        grouped = [one for one in seen if one.prefix is not None]
        if least > 8:
            assert not grouped
            assert any(one.most_query_tokens == 4 for one in seen)
        else:
            longest = {one.most_query_tokens for one in grouped}  # a prompt may be among them
            assert not longest & set(range(2, shared_prefix.MAX_ROWS + 1))
            assert max(len(one.prefix.members) for one in grouped) == 1 + 3 * 4
    assert told[0] == told[1]

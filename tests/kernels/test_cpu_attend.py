"""Attention of the native set against the reference: any pages, windows, sinks and prefixes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt_kernels.contract import PagedRows, Score, SharedPrefix
from agentrt_kernels.cpu.kernel_set import CpuKernels
from agentrt_kernels.kv_codes import CODE_DTYPES, encode_heads
from agentrt_kernels.reference import Reference

LOOSE = {torch.float32: 2e-5, torch.bfloat16: 2e-2}
CODES = [None, *CODE_DTYPES.values()]


sequences = st.lists(
    st.tuples(st.integers(0, 150), st.sampled_from([0, 1, 1, 1, 2, 5, 33])), min_size=1, max_size=5
)
cases = st.fixed_dictionaries(
    {
        "sequences": sequences,  # tokens before the batch, rows in it
        "page": st.sampled_from([1, 4, 16]),
        "heads": st.sampled_from([(1, 1), (4, 1), (6, 2), (4, 4)]),
        "dim": st.sampled_from([8, 16, 32, 64, 80, 128]),
        "dtype": st.sampled_from([torch.float32, torch.bfloat16]),
        "window": st.sampled_from([None, None, 1, 20, 70]),
        "unseen": st.sampled_from([0, 0, 1, 30]),
        "softcap": st.sampled_from([None, None, 5.0]),
        "sinks": st.booleans(),
        "codes": st.sampled_from(CODES),
    }
)


def batch_of(sequences, page, source, spare=3):
    """Rows of `sequences` over pages in any order."""
    tokens = [before + rows for before, rows in sequences]
    needed = [-(-count // page) for count in tokens]
    pages = torch.randperm(sum(needed) + spare, generator=source)
    table = torch.zeros(len(tokens), max(1, *needed), dtype=torch.int32)
    at = 0
    for row, count in zip(table, needed, strict=True):
        row[:count] = pages[at : at + count]
        at += count
    starts = torch.tensor([0, *(rows for _, rows in sequences)]).cumsum(0)
    rows = PagedRows(
        query_start=starts.int(),
        kv_tokens=torch.tensor(tokens, dtype=torch.int32),
        block_table=table,
        most_query_tokens=max(rows for _, rows in sequences),
        most_kv_tokens=max(tokens),
    )
    return rows, sum(needed) + spare, int(starts[-1])


def memory_of(pages, page, kv_heads, dim, dtype, source):
    """One layer of three, so that pages do not touch."""
    shape = (pages, 3, 2, page, kv_heads, dim)
    return torch.randn(shape, generator=source).to(dtype)[:, 1]


def coded_memory(memory, kind):
    """Codes `[pages, 2, P, K, D]` and scales `[pages, 2, K, P]` of one layer of three."""
    codes, scales = encode_heads(memory, kind)
    apart = torch.zeros(codes.shape[0], 3, *codes.shape[1:], dtype=kind)
    turned = scales.transpose(-1, -2)
    beside = torch.zeros(codes.shape[0], 3, *turned.shape[1:], dtype=scales.dtype)
    apart[:, 1], beside[:, 1] = codes, turned
    return apart[:, 1], beside[:, 1]


def compare(kernels, query, pages, rows, score, *, codes=None):
    """Against the reference, which decodes before it attends."""
    expected, found = torch.empty_like(query), torch.full_like(query, torch.nan)
    scales = None
    if codes is not None:
        pages, scales = coded_memory(pages, codes)
    Reference().attend(query, pages, rows, score, expected, scales)
    kernels.attend(query, pages, rows, score, found, scales)
    torch.testing.assert_close(found, expected, atol=LOOSE[query.dtype], rtol=LOOSE[query.dtype])
    if codes is not None:
        apart = (found.float() - expected.float()).norm() / expected.float().norm().clamp(min=1e-9)
        assert apart < 1e-2


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(case=cases, seed=st.integers(0, 99))
def check(kernels, case, seed):
    source = torch.Generator().manual_seed(seed)
    heads, kv_heads = case["heads"]
    rows, pages, tokens = batch_of(case["sequences"], case["page"], source)
    memory = memory_of(pages, case["page"], kv_heads, case["dim"], case["dtype"], source)
    query = torch.randn(tokens, heads, case["dim"], generator=source).to(case["dtype"])
    sinks = torch.randn(heads, generator=source).to(case["dtype"]) if case["sinks"] else None
    score = Score(case["dim"] ** -0.5, case["softcap"], case["window"], sinks, case["unseen"])
    compare(kernels, query, memory, rows, score, codes=case["codes"])


def test_every_row_sees_its_pages_as_the_reference_says(kernels):
    check(kernels)


def test_every_row_sees_its_pages_by_either_product(other_dot):
    check(CpuKernels(1, other_dot))


def test_every_row_sees_its_pages_on_other_processors(level_library):
    check(CpuKernels(1, level_library))


@pytest.mark.parametrize("window", [None, 40, 700])
@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("codes", CODES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_shared_prefix_changes_nothing_but_the_work(kernels, dtype, codes, sinks, window):
    source = torch.Generator().manual_seed(3)
    page, shared = 16, 640
    own = [5, 90, 17, 300, 1, 33]
    rows, pages, tokens = batch_of([(shared + count - 1, 1) for count in own], page, source)
    members, apart = [0, 2, 3, 5], [1, 4]
    first = rows.block_table[0, : shared // page].clone()
    for member in members:
        rows.block_table[member, : shared // page] = first
    second = rows.block_table[1, : 320 // page].clone()
    for member in apart:
        rows.block_table[member, : 320 // page] = second
    table = torch.zeros(2, shared // page, dtype=torch.int32)
    table[0], table[1, : 320 // page] = first, second
    prefix = SharedPrefix(
        member_start=torch.tensor([0, 4, 6], dtype=torch.int32),
        members=torch.tensor([*members, *apart], dtype=torch.int32),
        tokens=torch.tensor([shared, 320], dtype=torch.int32),
        block_table=table,
        most_members=4,
    )
    memory = memory_of(pages, page, 2, 32, dtype, source)
    query = torch.randn(tokens, 8, 32, generator=source).to(dtype)
    score = Score(32**-0.5, None, window, torch.randn(8, generator=source) if sinks else None)
    with_prefix = PagedRows(
        rows.query_start, rows.kv_tokens, rows.block_table, 1, rows.most_kv_tokens, prefix
    )
    compare(kernels, query, memory, with_prefix, score, codes=codes)


@pytest.mark.parametrize("codes", CODES)
def test_many_members_and_long_histories_are_cut_and_joined(kernels, codes):
    source = torch.Generator().manual_seed(4)
    rows, pages, tokens = batch_of([(1500, 1), (3, 2), (2900, 1), (700, 60)], 16, source)
    memory = memory_of(pages, 16, 1, 64, torch.float32, source)
    query = torch.randn(tokens, 6, 64, generator=source)
    compare(kernels, query, memory, rows, Score(0.1), codes=codes)


def test_what_lies_behind_the_last_token_is_not_read(kernels):
    source = torch.Generator().manual_seed(5)
    rows, pages, tokens = batch_of([(20, 1), (31, 4)], 16, source)
    memory = memory_of(pages, 16, 2, 64, torch.bfloat16, source)
    for row, count in zip(rows.block_table, rows.kv_tokens, strict=True):
        memory[row[int(count) // 16], :, int(count) % 16 :] = torch.nan
    query = torch.randn(tokens, 4, 64, generator=source).bfloat16()
    out = torch.empty_like(query)
    kernels.attend(query, memory, rows, Score(0.1), out)
    assert torch.isfinite(out).all()


@pytest.mark.parametrize("kind", CODES[1:])
def test_no_scale_behind_the_last_token_is_read(kernels, kind):
    source = torch.Generator().manual_seed(5)
    rows, pages, tokens = batch_of([(20, 1), (31, 4)], 16, source)
    codes, scales = coded_memory(memory_of(pages, 16, 2, 64, torch.bfloat16, source), kind)
    for row, count in zip(rows.block_table, rows.kv_tokens, strict=True):
        scales[row[int(count) // 16], ..., int(count) % 16 :] = torch.nan
    query = torch.randn(tokens, 4, 64, generator=source).bfloat16()
    out = torch.empty_like(query)
    kernels.attend(query, codes, rows, Score(0.1), out, scales)
    assert torch.isfinite(out).all()


@pytest.mark.parametrize("kind", CODES[1:])
def test_codes_without_scales_are_refused(kernels, kind):
    source = torch.Generator().manual_seed(5)
    rows, pages, tokens = batch_of([(20, 1)], 16, source)
    memory = memory_of(pages, 16, 2, 64, torch.float32, source)
    codes, scales = coded_memory(memory, kind)
    query = torch.randn(tokens, 4, 64, generator=source)
    with pytest.raises(TypeError, match=rf"read torch\.float32 beside .*, not {kind}"):
        kernels.attend(query, codes, rows, Score(0.1), query)
    with pytest.raises(TypeError, match=r"read torch\.int8 or torch\.float8_e4m3fn beside"):
        kernels.attend(query, memory, rows, Score(0.1), query, scales)
    with pytest.raises(TypeError, match=r"scales of codes are torch\.bfloat16"):
        kernels.attend(query, codes, rows, Score(0.1), query, scales.float())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("slope", [-3.0, 0.02, 0.3, 3.0])
def test_scores_that_grow_or_fall_along_a_history_are_weighed_right(kernels, dtype, slope):
    source = torch.Generator().manual_seed(6)
    rows, pages, tokens = batch_of([(700, 1), (290, 3)], 16, source)
    memory = memory_of(pages, 16, 1, 32, dtype, source)
    query = torch.randn(tokens, 4, 32, generator=source).to(dtype)
    query[..., 0] = 1
    for row, count in zip(rows.block_table, rows.kv_tokens, strict=True):
        for at in range(int(count)):  # a score of `slope` more for each token of the history
            memory[row[at // 16], 0, at % 16, :, 0] = slope * at
    compare(kernels, query, memory, rows, Score(1.0))

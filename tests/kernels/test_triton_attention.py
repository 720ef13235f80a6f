"""Attention of the Triton set against the reference, under the interpreter."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt_kernels.check.batch import Attention, batch_of
from agentrt_kernels.check.difference import attend
from agentrt_kernels.kv_codes import CODE_DTYPES
from agentrt_kernels.reference import Reference

CPU = torch.device("cpu")
E4M3 = torch.float8_e4m3fn

rows_and_before = st.lists(
    st.tuples(st.integers(1, 40), st.sampled_from([0, 1, 1, 2, 19])), min_size=1, max_size=3
)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Attention((36, 4), (1, 1), 4, 2, 32), id="two decodes"),
        pytest.param(Attention((299, 9), (1, 0), 6, 2, 40, page=8), id="split, odd width"),
        pytest.param(Attention((0,), (33,), 7, 1, 32), id="a prompt of seven heads a group"),
        pytest.param(Attention((7, 40, 3), (40, 1, 0), 4, 2, 32, page=4), id="mixed"),
        pytest.param(Attention((150, 3), (3, 2), 4, 4, 16), id="few rows each, split"),
        pytest.param(Attention((20,), (1,), 16, 1, 256), id="wide heads, groups of 16"),
        pytest.param(
            Attention((20, 33), (1, 20), 4, 2, 32, window=7, page=4), id="window of under a tile"
        ),
        pytest.param(
            Attention((140, 9), (1, 1), 4, 2, 32, window=50, softcap=3.0, sinks=True),
            id="window, cap, sinks, split",
        ),
        pytest.param(
            Attention((3, 9), (30, 1), 4, 2, 32, softcap=2.0, sinks=True), id="cap, sinks, prompt"
        ),
        pytest.param(Attention((30, 5), (1, 20), 4, 2, 32, dtype=torch.float16), id="fp16"),
        pytest.param(Attention((30, 5), (1, 20), 4, 2, 32, dtype=torch.bfloat16), id="bf16"),
        pytest.param(Attention((36, 4), (1, 1), 4, 2, 32, codes=torch.int8), id="codes"),
        pytest.param(Attention((36, 4), (1, 1), 4, 2, 32, codes=E4M3), id="FP8"),
        pytest.param(
            Attention((299, 9, 3), (1, 0, 20), 6, 2, 40, page=8, dtype=torch.bfloat16, codes=E4M3),
            id="FP8, split, odd width, bf16",
        ),
        pytest.param(
            Attention((140, 9), (1, 1), 4, 2, 32, window=50, softcap=3.0, sinks=True, codes=E4M3),
            id="FP8, window, cap, sinks, split",
        ),
        pytest.param(
            Attention(
                (299, 9, 3), (1, 0, 20), 6, 2, 40, page=8, dtype=torch.float16, codes=torch.int8
            ),
            id="codes, split, odd width, fp16",
        ),
        pytest.param(
            Attention(
                (140, 9), (1, 1), 4, 2, 32, window=50, softcap=3.0, sinks=True, codes=torch.int8
            ),
            id="codes, window, cap, sinks, split",
        ),
    ],
)
def test_attention_is_the_references(interpreted, case: Attention) -> None:
    assert attend(interpreted, case, CPU) <= 1


@pytest.mark.parametrize("codes", CODE_DTYPES.values(), ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_codes_are_attended_as_if_they_were_decoded_first(interpreted, dtype, codes) -> None:
    made = batch_of(Attention((70, 9), (1, 20), 4, 2, 64, dtype=dtype, codes=codes), CPU)
    expected = torch.empty_like(made.out)
    for one, out in ((Reference(), expected), (interpreted, made.out)):
        one.attend(made.query, made.layer_pages, made.rows, made.score, out, made.scales)
    wide = expected.float()
    assert (made.out.float() - wide).norm() < 1e-2 * wide.norm()


GROUPS = (((0, 2), 48), ((5, 4, 1), 52))


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            Attention((66, 54, 69, 8, 65, 60), (1,) * 6, 4, 2, 32, page=4, groups=GROUPS),
            id="two groups and one alone",
        ),
        pytest.param(
            Attention(
                (66, 54, 69, 8, 65, 60),
                (1,) * 6,
                6,
                2,
                32,
                page=4,
                groups=GROUPS,
                window=30,
                softcap=2.0,
                sinks=True,
            ),
            id="window inside the prefix, cap, sinks",
        ),
        pytest.param(
            Attention(
                (66, 54, 69, 8, 65, 60), (1,) * 6, 4, 2, 32, page=4, groups=GROUPS, codes=torch.int8
            ),
            id="codes",
        ),
        pytest.param(
            Attention(
                (66, 54, 69, 8, 65, 60), (1,) * 6, 4, 2, 32, page=4, groups=GROUPS, codes=E4M3
            ),
            id="FP8",
        ),
        pytest.param(
            Attention((300, 300, 301, 40), (1, 1, 1, 20), 4, 1, 32, groups=(((0, 1, 2), 288),)),
            id="siblings beside a prompt, prefix split",
        ),
    ],
)
def test_shared_prefixes_are_merged_exactly(interpreted, case: Attention) -> None:
    assert attend(interpreted, case, CPU) <= 1


def test_a_shared_prefix_is_read_from_its_own_table(interpreted) -> None:
    """With the group's table, the members' own first pages may be any."""
    case = Attention((60, 50), (1, 1), 2, 1, 16, page=4, groups=(((0, 1), 48),))
    made, expected = batch_of(case, CPU), batch_of(case, CPU)
    interpreted.attend(
        expected.query, expected.layer_pages, expected.rows, expected.score, expected.out
    )
    made.rows.block_table[:, :12] = made.rows.block_table[0, 12]
    interpreted.attend(made.query, made.layer_pages, made.rows, made.score, made.out)
    torch.testing.assert_close(made.out, expected.out)


def test_bounds_may_be_larger_than_what_is_there(interpreted) -> None:
    """A captured graph has room for more: rows past the last sequence, longer contexts."""
    from dataclasses import replace

    case = Attention((20, 7), (1, 1), 4, 2, 32)
    made, tight = batch_of(case, CPU), batch_of(case, CPU)
    interpreted.attend(tight.query, tight.layer_pages, tight.rows, tight.score, tight.out)
    empty = torch.full((3,), 2, dtype=torch.int32)
    rows = replace(
        made.rows,
        query_start=torch.cat([made.rows.query_start, empty]),
        kv_tokens=torch.cat([made.rows.kv_tokens, 0 * empty]),
        block_table=torch.nn.functional.pad(made.rows.block_table, (0, 30, 0, 3)),
        most_kv_tokens=512,
    )
    query = torch.nn.functional.pad(made.query, (0, 0, 0, 0, 0, 3))
    out = torch.full_like(query, torch.nan)
    interpreted.attend(query, made.layer_pages, rows, made.score, out)
    torch.testing.assert_close(out[:2], tight.out)
    assert out[2:].isnan().all()


def test_a_short_history_takes_few_of_a_captured_grids_shares(interpreted) -> None:
    """The grid has room for the longest history; what is beyond this one writes no values."""
    from agentrt_kernels.triton.blocks import Blocks
    from agentrt_kernels.triton.merge import Partials
    from agentrt_kernels.triton.paged_decode import paged_decode

    made = batch_of(Attention((300,), (1,), 4, 2, 32), CPU)
    shape = (16, 1, 1, 4)
    partials = Partials(torch.full((*shape, 32), torch.nan), torch.zeros(shape), 16, 0)
    paged_decode(
        made.query,
        made.layer_pages,
        made.rows,
        made.score,
        made.out,
        most_rows=1,
        partials=partials,
        blocks=Blocks(rows=16, columns=16, inner=0, warps=4, stages=2),
    )
    assert partials.logsumexp[:3].isfinite().all()  # 301 tokens, at least 128 each
    assert (partials.logsumexp[3:] == -torch.inf).all()
    assert partials.values[3:].isnan().all()


def test_programs_go_to_the_groups_that_there_are(interpreted) -> None:
    """A captured step has room for eight groups; one or two of them share its programs."""
    from dataclasses import replace

    from agentrt_kernels.triton.blocks import Blocks
    from agentrt_kernels.triton.merge import Partials
    from agentrt_kernels.triton.shared_prefix import shared_prefix

    groups = {0: (0, 1, 2, 3, 4), 2: (6, 5)}
    case = Attention(
        (600,) * 7, (1,) * 7, 4, 1, 16, groups=tuple((m, 512) for m in groups.values())
    )
    made = batch_of(case, CPU)
    assert made.rows.prefix is not None
    tight = made.rows.prefix
    starts = torch.tensor([0, 5, 5, 7, 7, 7, 7, 7, 7], dtype=torch.int32)
    table = torch.zeros(8, 64, dtype=torch.int32)
    table[[0, 2], :32] = tight.block_table[:, :32]  # the group between them is empty
    tokens = torch.tensor([512, 0, 512, 0, 0, 0, 0, 0], dtype=torch.int32)
    prefix = replace(tight, member_start=starts, tokens=tokens, block_table=table, most_members=7)
    shape = (4 + 4, 7, 1, 4)
    partials = Partials(torch.full((*shape, 16), torch.nan), torch.full(shape, torch.nan), 4, 4)
    shared_prefix(
        made.query,
        made.layer_pages,
        made.rows,
        prefix,
        made.score,
        most_rows=1,
        programs=9,  # three blocks of members: three shares each
        partials=partials,
        blocks=Blocks(rows=16, columns=16, inner=0, warps=4, stages=2),
    )
    assert partials.logsumexp[:4].isnan().all()
    assert partials.logsumexp[4:7].isfinite().all()
    assert (partials.logsumexp[7] == -torch.inf).all()
    interpreted.attend(
        made.query, made.layer_pages, replace(made.rows, prefix=prefix), made.score, made.out
    )
    expected = batch_of(case, CPU)
    plain = replace(expected.rows, prefix=None)
    interpreted.attend(expected.query, expected.layer_pages, plain, expected.score, expected.out)
    torch.testing.assert_close(made.out, expected.out)


def test_pages_may_lie_beyond_32_bits(interpreted) -> None:
    """A page stride times a page number overflows 32 bits; the memory is never touched between."""
    stride = 2**29
    page, kv_heads, width = 4, 1, 16
    memory = torch.empty(5 * stride, dtype=torch.float16)  # the system hands out what is written
    pages = memory.as_strided(
        (5, 2, page, kv_heads, width), (stride, page * width, width, width, 1)
    )
    case = Attention((6,), (1,), 2, 1, width, page=page, dtype=torch.float16)
    made = batch_of(case, CPU)
    pages[4], pages[3] = made.layer_pages[made.rows.block_table[0].long()]
    made.rows.block_table[0] = torch.tensor([4, 3])
    interpreted.attend(made.query, pages, made.rows, made.score, made.out)
    near = batch_of(case, CPU)
    interpreted.attend(near.query, near.layer_pages, near.rows, near.score, near.out)
    torch.testing.assert_close(made.out, near.out)


@settings(max_examples=6, deadline=None, derandomize=True, database=None)
@given(
    sequences=rows_and_before.filter(lambda made: any(rows for _, rows in made)),
    heads=st.sampled_from([(1, 1), (4, 2), (6, 2), (5, 1)]),
    width=st.sampled_from([16, 24, 32]),
    page=st.sampled_from([1, 3, 16]),
    window=st.sampled_from([None, None, 1, 20]),
    seed=st.integers(0, 99),
)
def check_any_batch(kernels, sequences, heads, width, page, window, seed) -> None:
    before, rows = zip(*sequences, strict=True)
    many, kv_heads = heads
    case = Attention(before, rows, many, kv_heads, width, page=page, window=window, seed=seed)
    assert attend(kernels, case, CPU) <= 1


def test_attention_of_any_batch(interpreted) -> None:
    check_any_batch(interpreted)

"""Attention of prompts on Hopper: its warps have different tasks, so that they overlap.

One warp asks for pages of keys and values, which the memory accelerator (TMA) brings. Two groups of
four warps compute, half of the rows each: while the matrix units multiply for one of them, the
other works out its softmax; and within a group the product of a tile's weights with its values runs
beside the softmax of the next tile.

Source: FlashAttention-3 (Shah et al., 2024). Triton does not order instructions so by itself; this
is written in Gluon, its language for explicit layouts and asynchronous instructions.
"""

from __future__ import annotations

from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from agentrt_kernels.contract import PagedRows, Score
from agentrt_kernels.triton.hopper_tasks import GROUP_ROWS, HALF, STAGES, TOKENS, bring, compute
from agentrt_kernels.triton.operands import Heads
from agentrt_kernels.triton.paged_extend import owner

WIDTH = 128
"""D of the heads it is made for."""

ROWS = 128
"""Rows (times heads of a group) of a program."""

_FEWEST_TOKENS = 512
"""Context below which most of a tile is hidden from most rows, and smaller tiles do better."""

_CAPABILITY = 90
_COMPUTE_REGISTERS = gl.constexpr(240)
_LOAD_REGISTERS = gl.constexpr(24)
_LOG2_E = gl.constexpr(1.4426950408889634)
_PAGE_LAYOUT = gl.constexpr(gl.NVMMASharedLayout(128, 16, 2))


def fits(
    query: Tensor, layer_pages: Tensor, rows: PagedRows, score: Score, capability: int
) -> bool:
    """Whether the kernel is made for these operands, and they are large enough for its tiles.

    Args:
        query: `[T, H, D]`.
        layer_pages: `[pages, 2, P, K, D]`.
        rows: Sequences.
        score: Scaling, bound, window and sinks.
        capability: Compute capability of the device, `90` for Hopper.
    """
    _, _, page, kv_heads, width = layer_pages.shape
    group = query.shape[1] // kv_heads
    token = kv_heads * width
    return (
        capability == _CAPABILITY
        and query.element_size() == 2
        and layer_pages.dtype == query.dtype
        and width == WIDTH
        and group <= ROWS
        and rows.most_query_tokens * group >= ROWS
        and rows.most_kv_tokens >= _FEWEST_TOKENS
        and page in (8, 16, 32, 64, 128)
        and score.softcap is None
        and score.window is None
        and score.sinks is None
        and layer_pages.stride()[1:] == (page * token, token, width, 1)
        and layer_pages.stride(0) % token == 0
        and layer_pages.data_ptr() % 16 == 0
    )


def hopper_extend(
    query: Tensor,
    layer_pages: Tensor,
    rows: PagedRows,
    score: Score,
    out: Tensor,
    *,
    fewest_rows: int,
) -> None:
    """Attention of every sequence with at least `fewest_rows` rows; others are left alone.

    Args:
        query: `[T, H, D]` of operands that `fits`.
        layer_pages: `[pages, 2, P, K, D]` of the same dtype.
        rows: Sequences.
        score: Scaling.
        out: Like `query`.
        fewest_rows: Sequences with fewer belong to `paged_decode`.
    """
    pages, _, page, kv_heads, width = layer_pages.shape
    group = query.shape[1] // kv_heads
    token = kv_heads * width
    page_rows = layer_pages.stride(0) // token
    # All of the memory as one matrix, a token's keys or values a row.
    matrix = layer_pages.as_strided(((pages - 1) * page_rows + 2 * page, token), (token, 1))
    box = TensorDescriptor.from_tensor(matrix, [page, HALF.value], _PAGE_LAYOUT.value)
    sequences = rows.kv_tokens.shape[0]
    _hopper_extend[(query.shape[0] // (ROWS // group) + sequences, kv_heads)](
        Heads.of(query),
        Heads.of(out),
        box,
        page_rows,
        rows.block_table,
        rows.block_table.stride(0),
        rows.query_start,
        rows.kv_tokens,
        sequences,
        fewest_rows,
        score.scaling,
        G=group,
        P=page,
        BLOCK_Q=ROWS // group,
        num_warps=4,
    )


_owner = gluon.jit(owner.fn)  # the same code, for the other compiler


@gluon.jit(do_not_specialize=["sequences", "fewest_rows"])
def _hopper_extend(
    query,
    out,
    box,
    page_rows,
    table,
    table_stride,
    query_start,
    kv_tokens,
    sequences,
    fewest_rows,
    scaling,
    G: gl.constexpr,
    P: gl.constexpr,
    BLOCK_Q: gl.constexpr,
):
    # The last blocks of a prompt see most; they go first, so that none of them is left alone.
    block = gl.num_programs(0) - 1 - gl.program_id(0)
    kv_head = gl.program_id(1)
    sequence = _owner(query_start, sequences, block, BLOCK_Q)
    start = gl.load(query_start + sequence)
    count = gl.load(query_start + sequence + 1) - start
    first_row = (block - (start // BLOCK_Q + sequence)) * BLOCK_Q
    if (first_row >= count) | (count < fewest_rows):
        return
    tokens = gl.load(kv_tokens + sequence)
    table += sequence.to(gl.int64) * table_stride
    end = gl.minimum(tokens - count + first_row + BLOCK_Q, tokens)
    tiles = (end + TOKENS - 1) // TOKENS

    DTYPE: gl.constexpr = query.data.dtype.element_ty
    PAGES: gl.constexpr = STAGES * 2 * TOKENS // P
    key_pages = gl.allocate_shared_memory(DTYPE, [PAGES, P, HALF], _PAGE_LAYOUT)
    value_pages = gl.allocate_shared_memory(DTYPE, [PAGES, P, HALF], _PAGE_LAYOUT)
    queries = gl.allocate_shared_memory(DTYPE, [4, GROUP_ROWS, HALF], _PAGE_LAYOUT)
    keys = key_pages._reinterpret(DTYPE, [STAGES * 2, TOKENS, HALF], _PAGE_LAYOUT)
    values = value_pages._reinterpret(DTYPE, [STAGES * 2, TOKENS, HALF], _PAGE_LAYOUT)
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    keys_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    keys_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    values_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    values_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    for stage in gl.static_range(STAGES):
        mbarrier.init(keys_full.index(stage), count=1)
        mbarrier.init(keys_empty.index(stage), count=2)
        mbarrier.init(values_full.index(stage), count=1)
        mbarrier.init(values_empty.index(stage), count=2)

    place = (start, count, first_row, kv_head, tokens, tiles)
    pages = (key_pages, value_pages)
    barriers = (keys_full, keys_empty, values_full, values_empty)
    factor = scaling * _LOG2_E
    last_page = (tokens - 1) // P
    column = kv_head * 2 * HALF
    gl.warp_specialize(
        [
            (compute, (query, out, place, factor, queries, keys, values, barriers, G, BLOCK_Q, 0)),
            (compute, (query, out, place, factor, queries, keys, values, barriers, G, BLOCK_Q, 1)),
            (bring, (box, table, tiles, last_page, column, page_rows, pages, barriers, P)),
        ],
        [4, 1],
        [_COMPUTE_REGISTERS, _LOAD_REGISTERS],
    )

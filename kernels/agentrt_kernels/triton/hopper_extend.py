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
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from agentrt_kernels.contract import PagedRows, Score
from agentrt_kernels.triton.dependent_launch import capability
from agentrt_kernels.triton.operands import Heads

WIDTH = 128
"""D of the heads it is made for."""

ROWS = 128
"""Rows (times heads of a group) of a program."""

_FEWEST_TOKENS = 512
"""Context below which most of a tile is hidden from most rows, and smaller tiles do better."""

_CAPABILITY = 90
_HALF = gl.constexpr(64)
"""Values of a head that lie side by side in shared memory: 128 bytes, the widest pattern of banks.

Keys and values stand there as two halves `[N, 64]`, in which a page's tokens follow one another.
"""
_GROUP_ROWS = gl.constexpr(64)
_TOKENS = gl.constexpr(128)
_STAGES = gl.constexpr(2)
_COMPUTE_REGISTERS = gl.constexpr(240)
_LOAD_REGISTERS = gl.constexpr(24)
_LOG2_E = gl.constexpr(1.4426950408889634)
_PAGE_LAYOUT = gl.constexpr(gl.NVMMASharedLayout(128, 16, 2))

_sync_group = getattr(gl, "barrier", None) or gl.thread_barrier  # its name until Triton 3.6


def fits(query: Tensor, layer_pages: Tensor, rows: PagedRows, score: Score) -> bool:
    """Whether the kernel is made for these operands, and they are large enough for its tiles.

    Args:
        query: `[T, H, D]`.
        layer_pages: `[pages, 2, P, K, D]`.
        rows: Sequences.
        score: Scaling, bound, window and sinks.
    """
    _, _, page, kv_heads, width = layer_pages.shape
    group = query.shape[1] // kv_heads
    token = kv_heads * width
    return (
        capability(query.device) == _CAPABILITY
        and query.element_size() == 2
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
    box = TensorDescriptor.from_tensor(matrix, [page, _HALF.value], _PAGE_LAYOUT.value)
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


@gluon.jit
def _owner(starts, owners, block, BLOCK: gl.constexpr):
    """The last `b` whose blocks begin at or before `block`, as in `paged_extend`."""
    low = 0
    high = owners
    while high - low > 1:
        middle = (low + high) // 2
        if gl.load(starts + middle) // BLOCK + middle <= block:
            low = middle
        else:
            high = middle
    return low


@gluon.jit
def _ask_for(
    box, table, tile, last_page, row, column, page_rows, memory, stage, full, P: gl.constexpr
):
    """Let a tile's pages be brought to a stage; `full` tells when all of them are there.

    Pages past the last one are brought as the last one once more: no row sees them.
    """
    PAGES: gl.constexpr = _TOKENS // P
    barrier = full.index(stage)
    mbarrier.expect(barrier, _TOKENS * 2 * _HALF * 2)
    for at in gl.static_range(PAGES):
        page = gl.load(table + gl.minimum(tile * PAGES + at, last_page))
        for half in gl.static_range(2):
            place = memory.index((2 * stage + half) * PAGES + at)
            corner = [page * page_rows + row, column + half * _HALF]
            tma.async_copy_global_to_shared(box, corner, barrier, place)


@gluon.jit
def _load(
    box,
    table,
    tiles,
    last_page,
    column,
    page_rows,
    key_pages,
    value_pages,
    keys_full,
    keys_empty,
    values_full,
    values_empty,
    P: gl.constexpr,
):
    """The task of the one warp: bring each tile once its stage has been read by both groups."""
    for tile in range(tiles):
        stage = tile % _STAGES
        turn = ((tile // _STAGES) & 1) ^ 1
        mbarrier.wait(keys_empty.index(stage), turn)
        _ask_for(box, table, tile, last_page, 0, column, page_rows, key_pages, stage, keys_full, P)
        mbarrier.wait(values_empty.index(stage), turn)
        _ask_for(
            box, table, tile, last_page, P, column, page_rows, value_pages, stage, values_full, P
        )


@gluon.jit
def _soften(scores, first, own, largest, total, factor, MASKED: gl.constexpr):
    """Weights `[M, N]` of a tile that begins at `first`, and the state of the rows behind it."""
    if MASKED:
        place = first + gl.arange(0, _TOKENS, gl.SliceLayout(0, scores.type.layout))
        scores = gl.where(place[None, :] <= own[:, None], scores, -float("inf"))
    highest = gl.maximum(largest, gl.max(scores, 1) * factor)  # each row sees a token of tile 0
    weights = gl.exp2(scores * factor - highest[:, None])
    shrink = gl.exp2(largest - highest)
    return weights, shrink, highest, total * shrink + gl.sum(weights, 1)


@gluon.jit
def _clear_unseen(values, stage, first, tokens):
    """Clear values past the sequence's end: the weight 0 of one that is not finite were NaN.

    Both groups do that, and write the same.
    """
    LAYOUT: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    place = first + gl.arange(0, _TOKENS, gl.SliceLayout(1, LAYOUT))
    for half in gl.static_range(2):
        memory = values.index(2 * stage + half)
        kept = memory.load(LAYOUT)
        memory.store(gl.where((place < tokens)[:, None], kept, gl.zeros_like(kept)))
    fence_async_shared()
    _sync_group()


@gluon.jit
def _compute(
    query,
    out,
    start,
    count,
    first_row,
    kv_head,
    tokens,
    tiles,
    factor,
    queries,
    keys,
    values,
    keys_full,
    keys_empty,
    values_full,
    values_empty,
    G: gl.constexpr,
    BLOCK_Q: gl.constexpr,
    GROUP: gl.constexpr,
):
    """The task of a group of four warps: attention of its half of the rows."""
    DTYPE: gl.constexpr = query.data.dtype.element_ty
    SCORES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, _TOKENS, 16])
    RESULT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, _HALF, 16])
    WEIGHTS: gl.constexpr = gl.DotOperandLayout(0, RESULT, 2)
    LOADED: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])

    packed = GROUP * _GROUP_ROWS + gl.arange(0, _GROUP_ROWS, gl.SliceLayout(1, LOADED))
    row = first_row + packed // G
    real = (row < count) & (packed < BLOCK_Q * G)
    place = query.data + (start + row).to(gl.int64)[:, None] * query.row_stride
    place += (kv_head * G + packed % G)[:, None] * query.head_stride
    place += gl.arange(0, _HALF, gl.SliceLayout(0, LOADED))[None, :]
    query_low = queries.index(2 * GROUP)
    query_high = queries.index(2 * GROUP + 1)
    query_low.store(gl.load(place, mask=real[:, None], other=0.0))
    query_high.store(gl.load(place + _HALF, mask=real[:, None], other=0.0))
    fence_async_shared()
    _sync_group()

    packed = GROUP * _GROUP_ROWS + gl.arange(0, _GROUP_ROWS, gl.SliceLayout(1, SCORES))
    own = tokens - count + first_row + packed // G
    first_own = tokens - count + first_row + GROUP * _GROUP_ROWS // G
    whole = gl.minimum((first_own + 1) // _TOKENS, tiles)  # tiles before it hide nothing
    largest = gl.full([_GROUP_ROWS], -float("inf"), gl.float32, gl.SliceLayout(1, SCORES))
    total = gl.full([_GROUP_ROWS], 0.0, gl.float32, gl.SliceLayout(1, SCORES))
    low = gl.zeros([_GROUP_ROWS, _HALF], gl.float32, RESULT)
    high = gl.zeros([_GROUP_ROWS, _HALF], gl.float32, RESULT)
    nothing = gl.zeros([_GROUP_ROWS, _TOKENS], gl.float32, SCORES)

    mbarrier.wait(keys_full.index(0), 0)
    scores = warpgroup_mma(
        query_low, keys.index(0).permute((1, 0)), nothing, use_acc=False, is_async=True
    )
    scores = warpgroup_mma(query_high, keys.index(1).permute((1, 0)), scores, is_async=True)
    scores = warpgroup_mma_wait(0, deps=(scores,))
    mbarrier.arrive(keys_empty.index(0), count=1)
    weights, shrink, largest, total = _soften(scores, 0, own, largest, total, factor, True)
    operand = gl.convert_layout(weights.to(DTYPE), WEIGHTS)

    for MASKED in gl.static_range(2):
        for tile in range(gl.maximum(whole, 1) if MASKED else 1, tiles if MASKED else whole):
            # The product of this tile's scores, and of the last one's weights with its values.
            stage = tile % _STAGES
            last = (tile - 1) % _STAGES
            mbarrier.wait(keys_full.index(stage), (tile // _STAGES) & 1)
            scores = warpgroup_mma(
                query_low,
                keys.index(2 * stage).permute((1, 0)),
                nothing,
                use_acc=False,
                is_async=True,
            )
            scores = warpgroup_mma(
                query_high, keys.index(2 * stage + 1).permute((1, 0)), scores, is_async=True
            )
            mbarrier.wait(values_full.index(last), ((tile - 1) // _STAGES) & 1)
            low = warpgroup_mma(operand, values.index(2 * last), low, is_async=True)
            high = warpgroup_mma(operand, values.index(2 * last + 1), high, is_async=True)
            scores = warpgroup_mma_wait(2, deps=(scores,))
            mbarrier.arrive(keys_empty.index(stage), count=1)
            weights, shrink, largest, total = _soften(
                scores, tile * _TOKENS, own, largest, total, factor, MASKED
            )
            low, high, operand = warpgroup_mma_wait(0, deps=(low, high, operand))
            mbarrier.arrive(values_empty.index(last), count=1)
            shrunk = gl.convert_layout(shrink, gl.SliceLayout(1, RESULT))[:, None]
            low = low * shrunk
            high = high * shrunk
            operand = gl.convert_layout(weights.to(DTYPE), WEIGHTS)

    last = (tiles - 1) % _STAGES
    mbarrier.wait(values_full.index(last), ((tiles - 1) // _STAGES) & 1)
    if tiles * _TOKENS > tokens:
        _clear_unseen(values, last, (tiles - 1) * _TOKENS, tokens)
    low = warpgroup_mma(operand, values.index(2 * last), low, is_async=True)
    high = warpgroup_mma(operand, values.index(2 * last + 1), high, is_async=True)
    low, high = warpgroup_mma_wait(0, deps=(low, high))

    packed = GROUP * _GROUP_ROWS + gl.arange(0, _GROUP_ROWS, gl.SliceLayout(1, RESULT))
    row = first_row + packed // G
    real = (row < count) & (packed < BLOCK_Q * G)
    scale = 1.0 / gl.convert_layout(total, gl.SliceLayout(1, RESULT))
    place = out.data + (start + row).to(gl.int64)[:, None] * out.row_stride
    place += (kv_head * G + packed % G)[:, None] * out.head_stride
    place += gl.arange(0, _HALF, gl.SliceLayout(0, RESULT))[None, :]
    gl.store(place, (low * scale[:, None]).to(DTYPE), mask=real[:, None])
    gl.store(place + _HALF, (high * scale[:, None]).to(DTYPE), mask=real[:, None])


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
    tiles = (end + _TOKENS - 1) // _TOKENS

    DTYPE: gl.constexpr = query.data.dtype.element_ty
    PAGES: gl.constexpr = _STAGES * 2 * _TOKENS // P
    key_pages = gl.allocate_shared_memory(DTYPE, [PAGES, P, _HALF], _PAGE_LAYOUT)
    value_pages = gl.allocate_shared_memory(DTYPE, [PAGES, P, _HALF], _PAGE_LAYOUT)
    queries = gl.allocate_shared_memory(DTYPE, [4, _GROUP_ROWS, _HALF], _PAGE_LAYOUT)
    keys = key_pages._reinterpret(DTYPE, [_STAGES * 2, _TOKENS, _HALF], _PAGE_LAYOUT)
    values = value_pages._reinterpret(DTYPE, [_STAGES * 2, _TOKENS, _HALF], _PAGE_LAYOUT)
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    keys_full = gl.allocate_shared_memory(gl.int64, [_STAGES, 1], BARRIER)
    keys_empty = gl.allocate_shared_memory(gl.int64, [_STAGES, 1], BARRIER)
    values_full = gl.allocate_shared_memory(gl.int64, [_STAGES, 1], BARRIER)
    values_empty = gl.allocate_shared_memory(gl.int64, [_STAGES, 1], BARRIER)
    for stage in gl.static_range(_STAGES):
        mbarrier.init(keys_full.index(stage), count=1)
        mbarrier.init(keys_empty.index(stage), count=2)
        mbarrier.init(values_full.index(stage), count=1)
        mbarrier.init(values_empty.index(stage), count=2)

    factor = scaling * _LOG2_E
    gl.warp_specialize(
        [
            (
                _compute,
                (
                    query,
                    out,
                    start,
                    count,
                    first_row,
                    kv_head,
                    tokens,
                    tiles,
                    factor,
                    queries,
                    keys,
                    values,
                    keys_full,
                    keys_empty,
                    values_full,
                    values_empty,
                    G,
                    BLOCK_Q,
                    0,
                ),
            ),
            (
                _compute,
                (
                    query,
                    out,
                    start,
                    count,
                    first_row,
                    kv_head,
                    tokens,
                    tiles,
                    factor,
                    queries,
                    keys,
                    values,
                    keys_full,
                    keys_empty,
                    values_full,
                    values_empty,
                    G,
                    BLOCK_Q,
                    1,
                ),
            ),
            (
                _load,
                (
                    box,
                    table,
                    tiles,
                    (tokens - 1) // P,
                    kv_head * 2 * _HALF,
                    page_rows,
                    key_pages,
                    value_pages,
                    keys_full,
                    keys_empty,
                    values_full,
                    values_empty,
                    P,
                ),
            ),
        ],
        [4, 1],
        [_COMPUTE_REGISTERS, _LOAD_REGISTERS],
    )

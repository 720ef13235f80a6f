"""Tasks of warps in attention of prompts on Hopper: one brings tiles, two groups compute on them.

Stages of tiles are handed over by barriers in shared memory: `full` when all bytes of a tile have
come, `empty` when both groups have read it.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

HALF = gl.constexpr(64)
"""Values of a head that lie side by side in shared memory: 128 bytes, the widest pattern of banks.

Keys and values stand there as two halves `[N, 64]`, in which a page's tokens follow one another.
"""

GROUP_ROWS = gl.constexpr(64)
"""Rows (times heads of a group) of a group of four warps."""

TOKENS = gl.constexpr(128)
"""Tokens of a tile."""

STAGES = gl.constexpr(2)
"""Tiles of keys, and of values, under way at a time."""

_sync_group = getattr(gl, "barrier", None) or gl.thread_barrier  # its name until Triton 3.6


@gluon.jit
def _ask_for(
    box, table, tile, last_page, row, column, page_rows, memory, stage, full, P: gl.constexpr
):
    """Let a tile's pages be brought to a stage; `full` tells when all of them are there.

    Pages past the last one are brought as the last one once more: no row sees them.
    """
    PAGES: gl.constexpr = TOKENS // P
    barrier = full.index(stage)
    mbarrier.expect(barrier, TOKENS * 2 * HALF * 2)
    for at in gl.static_range(PAGES):
        page = gl.load(table + gl.minimum(tile * PAGES + at, last_page))
        for half in gl.static_range(2):
            place = memory.index((2 * stage + half) * PAGES + at)
            corner = [page * page_rows + row, column + half * HALF]
            tma.async_copy_global_to_shared(box, corner, barrier, place)


@gluon.jit
def bring(box, table, tiles, last_page, column, page_rows, pages, barriers, P: gl.constexpr):
    """The task of the one warp: bring each tile once its stage has been read by both groups."""
    key_pages, value_pages = pages
    keys_full, keys_empty, values_full, values_empty = barriers
    for tile in range(tiles):
        stage = tile % STAGES
        turn = ((tile // STAGES) & 1) ^ 1
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
        place = first + gl.arange(0, TOKENS, gl.SliceLayout(0, scores.type.layout))
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
    place = first + gl.arange(0, TOKENS, gl.SliceLayout(1, LAYOUT))
    for half in gl.static_range(2):
        memory = values.index(2 * stage + half)
        kept = memory.load(LAYOUT)
        memory.store(gl.where((place < tokens)[:, None], kept, gl.zeros_like(kept)))
    fence_async_shared()
    _sync_group()


@gluon.jit
def compute(
    query,
    out,
    place,
    factor,
    queries,
    keys,
    values,
    barriers,
    G: gl.constexpr,
    BLOCK_Q: gl.constexpr,
    GROUP: gl.constexpr,
):
    """The task of a group of four warps: attention of its half of the rows."""
    start, count, first_row, kv_head, tokens, tiles = place
    keys_full, keys_empty, values_full, values_empty = barriers
    DTYPE: gl.constexpr = query.data.dtype.element_ty
    SCORES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, TOKENS, 16])
    RESULT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HALF, 16])
    WEIGHTS: gl.constexpr = gl.DotOperandLayout(0, RESULT, 2)
    LOADED: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])

    packed = GROUP * GROUP_ROWS + gl.arange(0, GROUP_ROWS, gl.SliceLayout(1, LOADED))
    row = first_row + packed // G
    real = (row < count) & (packed < BLOCK_Q * G)
    source = query.data + (start + row).to(gl.int64)[:, None] * query.row_stride
    source += (kv_head * G + packed % G)[:, None] * query.head_stride
    source += gl.arange(0, HALF, gl.SliceLayout(0, LOADED))[None, :]
    query_low = queries.index(2 * GROUP)
    query_high = queries.index(2 * GROUP + 1)
    query_low.store(gl.load(source, mask=real[:, None], other=0.0))
    query_high.store(gl.load(source + HALF, mask=real[:, None], other=0.0))
    fence_async_shared()
    _sync_group()

    packed = GROUP * GROUP_ROWS + gl.arange(0, GROUP_ROWS, gl.SliceLayout(1, SCORES))
    own = tokens - count + first_row + packed // G
    first_own = tokens - count + first_row + GROUP * GROUP_ROWS // G
    whole = gl.minimum((first_own + 1) // TOKENS, tiles)  # tiles before it hide nothing
    largest = gl.full([GROUP_ROWS], -float("inf"), gl.float32, gl.SliceLayout(1, SCORES))
    total = gl.full([GROUP_ROWS], 0.0, gl.float32, gl.SliceLayout(1, SCORES))
    low = gl.zeros([GROUP_ROWS, HALF], gl.float32, RESULT)
    high = gl.zeros([GROUP_ROWS, HALF], gl.float32, RESULT)
    nothing = gl.zeros([GROUP_ROWS, TOKENS], gl.float32, SCORES)

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
            stage = tile % STAGES
            last = (tile - 1) % STAGES
            mbarrier.wait(keys_full.index(stage), (tile // STAGES) & 1)
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
            mbarrier.wait(values_full.index(last), ((tile - 1) // STAGES) & 1)
            low = warpgroup_mma(operand, values.index(2 * last), low, is_async=True)
            high = warpgroup_mma(operand, values.index(2 * last + 1), high, is_async=True)
            scores = warpgroup_mma_wait(2, deps=(scores,))
            mbarrier.arrive(keys_empty.index(stage), count=1)
            weights, shrink, largest, total = _soften(
                scores, tile * TOKENS, own, largest, total, factor, MASKED
            )
            low, high, operand = warpgroup_mma_wait(0, deps=(low, high, operand))
            mbarrier.arrive(values_empty.index(last), count=1)
            shrunk = gl.convert_layout(shrink, gl.SliceLayout(1, RESULT))[:, None]
            low = low * shrunk
            high = high * shrunk
            operand = gl.convert_layout(weights.to(DTYPE), WEIGHTS)

    last = (tiles - 1) % STAGES
    mbarrier.wait(values_full.index(last), ((tiles - 1) // STAGES) & 1)
    if tiles * TOKENS > tokens:
        _clear_unseen(values, last, (tiles - 1) * TOKENS, tokens)
    low = warpgroup_mma(operand, values.index(2 * last), low, is_async=True)
    high = warpgroup_mma(operand, values.index(2 * last + 1), high, is_async=True)
    low, high = warpgroup_mma_wait(0, deps=(low, high))

    packed = GROUP * GROUP_ROWS + gl.arange(0, GROUP_ROWS, gl.SliceLayout(1, RESULT))
    row = first_row + packed // G
    real = (row < count) & (packed < BLOCK_Q * G)
    scale = 1.0 / gl.convert_layout(total, gl.SliceLayout(1, RESULT))
    target = out.data + (start + row).to(gl.int64)[:, None] * out.row_stride
    target += (kv_head * G + packed % G)[:, None] * out.head_stride
    target += gl.arange(0, HALF, gl.SliceLayout(0, RESULT))[None, :]
    gl.store(target, (low * scale[:, None]).to(DTYPE), mask=real[:, None])
    gl.store(target + HALF, (high * scale[:, None]).to(DTYPE), mask=real[:, None])

"""Begin and end of a tile of a product: the rows and the matrix it takes, and where it is written.

Common to all products. Rows are those of one matrix, or sorted by expert, each of which has a
matrix of its own; then blocks of rows are found as `paged_extend` finds those of a sequence, so
that the grid follows from bounds.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from agentrt_kernels.triton.blocks import Blocks
from agentrt_kernels.triton.paged_extend import owner


def row_blocks(rows: int, experts: int | None, blocks: Blocks) -> int:
    """Programs that share the rows: as many as there may be tiles; None for one matrix.

    Example:
        >>> row_blocks(33, None, Blocks(rows=16, columns=64, inner=64, warps=4, stages=4))
        3
    """
    if experts is None:
        return int(triton.cdiv(rows, blocks.rows))
    return rows // blocks.rows + experts


def expert_count(expert_start: Tensor | None) -> int | None:
    """E of `expert_start` `[E + 1]`, or None."""
    return None if expert_start is None else expert_start.shape[0] - 1


@triton.jit
def tile_rows(expert_start, experts, rows, BLOCK_M: tl.constexpr):
    """A tile's expert, its first row, and the end of that expert's rows; no work at or behind it.

    Without `expert_start` all `rows` are of one matrix.
    """
    block = tl.program_id(0)
    expert, first, stop = 0, block * BLOCK_M, rows
    if expert_start is not None:
        own = owner(expert_start, experts, block, BLOCK_M)
        start = tl.load(expert_start + own)
        stop = tl.load(expert_start + own + 1)
        first = start + (block - (start // BLOCK_M + own)) * BLOCK_M
        expert = own.to(tl.int64)
    return expert, first, stop


@triton.jit
def of_expert(data, expert, values):
    """Where an expert's part of `values` values begins; None for an operand that is not there."""
    if data is not None:
        data += expert * values
    return data


@triton.jit
def weighed(acc, factors, bias, output, real):
    """Sums `[N, M]` times the factor of each output, and its bias if there is one."""
    acc *= tl.load(factors + output, mask=real, other=0.0)[:, None]
    if bias is not None:
        acc += tl.load(bias + output, mask=real, other=0.0).to(tl.float32)[:, None]
    return acc


@triton.jit
def store_tile(out, acc, row, output, stop, outputs, row_stride):
    """Write sums; `row` and `output` stand along the dimensions of `acc`, either one first."""
    place = out + row.to(tl.int64) * row_stride + output
    tl.store(place, acc.to(out.dtype.element_ty), mask=(row < stop) & (output < outputs))

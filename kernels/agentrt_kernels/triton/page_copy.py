"""Whole pages copied between two memories, one of which may be pinned memory of the host."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 2048


def copy_pages(source: Tensor, target: Tensor, pairs: Tensor) -> None:
    """`target[pairs[i, 1]] = source[pairs[i, 0]]`.

    Args:
        source: `[pages, page_values]`, any row stride, on the device or pinned.
        target: The same width and dtype.
        pairs: `[n, 2]` int64, contiguous, on the device.
    """
    count, width = pairs.shape[0], source.shape[1]
    if count == 0:
        return
    _copy_pages[(count, triton.cdiv(width, _BLOCK))](
        source, target, pairs, source.stride(0), target.stride(0), width, BLOCK=_BLOCK
    )


@triton.jit
def _copy_pages(source, target, pairs, source_stride, target_stride, width, BLOCK: tl.constexpr):
    pair = pairs + tl.program_id(0).to(tl.int64) * 2
    here, there = tl.load(pair), tl.load(pair + 1)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < width
    values = tl.load(source + here * source_stride + place, mask=inside)
    tl.store(target + there * target_stride + place, values, mask=inside)

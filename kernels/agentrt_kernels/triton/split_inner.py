"""Products whose inputs are shared among programs, and the sum of what each has found.

A matrix of few outputs gives few programs, which would leave most of a device idle where few rows
wait for the weights. Shares are summed in their order, so that a product is the same each time.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from agentrt_kernels.triton.blocks import Blocks
from agentrt_kernels.triton.workspace import Workspace

MOST_SHARES = 8
FEWEST_TILES = 4
"""Tiles of a share: fewer would not pay for the sum."""
_BLOCK = 512


@dataclass(frozen=True, slots=True)
class Shares:
    """Parts of the inputs of a product.

    Attributes:
        count: Number of parts.
        parts: fp32 `[count, T, N]`, what each has found; None for one part.
    """

    count: int
    parts: Tensor | None = None

    @classmethod
    def of(
        cls, rows: int, outputs: int, span: int, blocks: Blocks, room: int, workspace: Workspace
    ) -> Shares:
        """As many as fill a device, by the sizes of a product alone.

        Args:
            rows: T.
            outputs: N.
            span: Codes or bytes of an output.
            blocks: Tiles of the product.
            room: Programs that the device holds.
            workspace: Memory for the parts.
        """
        programs = triton.cdiv(rows, blocks.rows) * triton.cdiv(outputs, blocks.columns)
        tiles = triton.cdiv(span, blocks.inner)
        count = max(1, min(MOST_SHARES, tiles // FEWEST_TILES, room // programs))
        count = triton.cdiv(tiles, triton.cdiv(tiles, count))  # no part is empty
        if count == 1:
            return cls(1)
        parts = workspace.take("split_inner.parts", (count, rows, outputs), torch.float32)
        return cls(count, parts)

    def codes_of_one(self, span: int, inner: int) -> int:
        """Codes of an output that a part takes: whole tiles."""
        tiles = triton.cdiv(span, inner)
        return inner * int(triton.cdiv(tiles, self.count))

    def target(self, out: Tensor) -> tuple[Tensor, int, int]:
        """Where programs write, its row stride, and the stride of parts."""
        if self.parts is None:
            return out, out.stride(0), 0
        return self.parts, self.parts.stride(1), self.parts.stride(0)

    def sum_into(self, out: Tensor, bias: Tensor | None) -> None:
        """Fill `out` `[T, N]` with the sum of the parts and `bias` `[N]`; nothing for one part."""
        if self.parts is None:
            return
        rows, outputs = out.shape
        _sum_parts[(rows, triton.cdiv(outputs, _BLOCK))](
            self.parts,
            bias,
            out,
            self.parts.stride(0),
            out.stride(0),
            outputs,
            COUNT=self.count,
            BLOCK=_BLOCK,
        )


@triton.jit
def _sum_parts(
    parts, bias, out, part_stride, out_stride, outputs, COUNT: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    output = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    real = output < outputs
    total = tl.zeros([BLOCK], tl.float32)
    for at in tl.static_range(COUNT):
        total += tl.load(parts + at * part_stride + row * outputs + output, mask=real, other=0.0)
    if bias is not None:
        total += tl.load(bias + output, mask=real, other=0.0).to(tl.float32)
    tl.store(out + row * out_stride + output, total.to(out.dtype.element_ty), mask=real)

"""Adapters of linears, packed as native code reads them."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Array, addressof

import torch
from torch import Tensor

from agentrt_kernels.cpu import library as c
from agentrt_kernels.cpu.linear import LANES, PANEL
from agentrt_kernels.lora import LowRank


class PackedAdapters:
    """The parts of all adapters in one linear.

    Args:
        matrices: Parts by adapter; None leaves the linear alone.
        dtype: Type of the rows, fp32 or bf16.
        gated: Whether the linear's outputs are gates and then what they open for.

    Attributes:
        table: Structs of all adapters, which live as long as this object.
        ranks: The most ranks of an adapter.
        nbytes: Bytes of all parts.
    """

    def __init__(
        self, matrices: Sequence[LowRank | None], dtype: torch.dtype, *, gated: bool
    ) -> None:
        self.table = (c.LoraMatrix * len(matrices))()
        self.ranks = max((one.down.shape[0] for one in matrices if one is not None), default=0)
        self.nbytes = 0
        self._kept: list[object] = []
        for to, matrix in zip(self.table, matrices, strict=True):
            if matrix is not None:
                self._take(to, matrix, dtype, gated)

    def _take(self, to: c.LoraMatrix, matrix: LowRank, dtype: torch.dtype, gated: bool) -> None:
        down = matrix.down.to(dtype).contiguous()
        scales = matrix.scales.float().contiguous()
        panels, up = _panels(matrix, dtype, gated=gated)
        to.down, to.scales, to.up = down.data_ptr(), scales.data_ptr(), up.data_ptr()
        to.panels, to.ranks = addressof(panels), down.shape[0]
        self._kept += (down, scales, up, panels)
        self.nbytes += down.nbytes + scales.nbytes + up.nbytes


def _panels(
    matrix: LowRank, dtype: torch.dtype, *, gated: bool
) -> tuple[Array[c.LoraPanel], Tensor]:
    """The matrix up as `[ranks of a panel][32]`, panel by panel, and where each begins."""
    outputs = matrix.up.shape[0] // 2 if gated else matrix.up.shape[0]
    columns = LANES if gated else PANEL
    count = -(-outputs // columns)
    places = (c.LoraPanel * count)()
    parts: list[Tensor] = []
    offset = 0
    for number, place in enumerate(places):
        first, past = number * columns, min(outputs, (number + 1) * columns)
        runs = [(first, past), (outputs + first, outputs + past)] if gated else [(first, past)]
        seen = [
            (span.first_rank, span.past_rank)
            for span in matrix.spans
            for begin, end in runs
            if span.first_output < end and begin < span.past_output
        ]
        low = min((begin for begin, _ in seen), default=0)
        high = max((end for _, end in seen), default=0)
        part = torch.zeros((high - low, PANEL), dtype=dtype)
        for at, (begin, end) in enumerate(runs):
            to = at * LANES
            part[:, to : to + end - begin] = matrix.up[begin:end, low:high].t()
        place.offset, place.first, place.past = offset, low, high
        offset += part.numel()
        parts.append(part.flatten())
    return places, torch.cat(parts)

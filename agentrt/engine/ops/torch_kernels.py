"""Kernel set in torch alone, for machines without a compiler; runs anywhere.

Attention in tiles (`attention`), the rest with torch's own operations.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from agentrt.engine.ops.attention import current_attention
from agentrt.engine.sampling.torch_sampler import sample_rows
from agentrt_kernels.contract import SILU, Activation, HeadNorms, PagedRows, Score
from agentrt_kernels.kv_codes import encode_heads
from agentrt_kernels.reference import Reference


@dataclass(frozen=True, slots=True)
class RopeRotation:
    """Values shared by all layers of one forward, which are given the same tensors.

    Attributes:
        given: Positions, angles and slot mapping.
        strides: Strides of the pages.
        cosines: `[T, 1, D]`.
        sines: `[T, 1, D]`, with the sign for each half of a head.
        stored_rows: `[n]` rows that are stored, or None for all.
        kv_rows: `[n]` their target, in tokens from the first key of the layer.
    """

    given: tuple[Tensor, Tensor, Tensor]
    strides: tuple[int, ...]
    cosines: Tensor
    sines: Tensor
    stored_rows: Tensor | None
    kv_rows: Tensor

    @classmethod
    def build(
        cls, positions: Tensor, angles: Tensor, rows: Tensor, pages: Tensor, dtype: torch.dtype
    ) -> RopeRotation:
        """Build the rotation of one forward."""
        cos, sin = angles[positions].to(dtype)[:, None].chunk(2, -1)  # [T, 1, D / 2]
        kept = None if bool((rows >= 0).all()) else (rows >= 0).nonzero()[:, 0]
        stored = rows if kept is None else rows[kept]
        size = pages.shape[2]
        between = pages.stride(0) // pages.stride(2) - size  # tokens between two pages
        return cls(
            given=(positions, angles, rows),
            strides=pages.stride(),
            cosines=torch.cat((cos, cos), -1),
            sines=torch.cat((-sin, sin), -1),
            stored_rows=kept,
            kv_rows=stored + stored // size * between,
        )

    def is_for(self, positions: Tensor, angles: Tensor, rows: Tensor, pages: Tensor) -> bool:
        """Whether it was built from these tensors."""
        mine = self.given
        same = positions is mine[0] and angles is mine[1] and rows is mine[2]
        return same and pages.stride() == self.strides

    def store(self, pages: Tensor, key: Tensor, value: Tensor) -> None:
        """Store `key` and `value` `[n, K, D]` in `pages` `[pages, 2, P, K, D]`."""
        width = pages.stride(2)
        shape = (pages.stride(0) // width * (pages.shape[0] - 1) + pages.shape[2], width)
        for offset, part in ((0, key), (pages.stride(1), value)):
            flat = pages.as_strided(shape, (width, 1), pages.storage_offset() + offset)
            flat.index_copy_(0, self.kv_rows, part.reshape(-1, width))


class TorchKernels(Reference):
    """torch's fused operations where they exist, tiles for attention, else the reference."""

    name = "torch"
    sample = staticmethod(sample_rows)

    def __init__(self) -> None:
        self._rotation: RopeRotation | None = None

    def rms_norm(
        self,
        x: Tensor,
        weight: Tensor,
        epsilon: float,
        out: Tensor,
        *,
        centered: bool = False,
    ) -> None:
        """See `Kernels.rms_norm`."""
        if weight.dtype != x.dtype or weight.dim() > 1:  # torch has no fused norm of these
            super().rms_norm(x, weight, epsilon, out, centered=centered)
        elif centered:
            out.copy_(functional.layer_norm(x, weight.shape, weight, None, epsilon))
        else:
            out.copy_(functional.rms_norm(x, weight.shape, weight, epsilon))

    def add_rms_norm(
        self,
        delta: Tensor,
        residual: Tensor,
        weight: Tensor,
        epsilon: float,
        out: Tensor,
        *,
        centered: bool = False,
    ) -> None:
        """See `Kernels.add_rms_norm`."""
        residual.add_(delta)
        self.rms_norm(residual, weight, epsilon, out, centered=centered)

    def gate_mul(self, gate_up: Tensor, out: Tensor, activation: Activation = SILU) -> None:
        """See `Kernels.gate_mul`."""
        if activation != SILU:
            super().gate_mul(gate_up, out, activation)
            return
        gate, up = gate_up.chunk(2, -1)
        torch.mul(functional.silu(gate), up, out=out)

    def rope_store(
        self,
        qkv: Tensor,
        positions: Tensor,
        angles: Tensor,
        rows: Tensor,
        norms: HeadNorms | None,
        layer_pages: Tensor,
        query: Tensor,
        scales: Tensor | None = None,
    ) -> None:
        """See `Kernels.rope_store`."""
        heads, pairs = query.shape[1], layer_pages.shape[3]
        turning = qkv[:, : heads + pairs]
        if norms is not None:
            normed = torch.empty_like(turning)
            for part, weight in ((slice(heads), norms.query), (slice(heads, None), norms.key)):
                self.rms_norm(
                    turning[:, part],
                    weight,
                    norms.epsilon,
                    normed[:, part],
                    centered=norms.centered,
                )
            turning = normed
        turn = self._rotation
        if turn is None or not turn.is_for(positions, angles, rows, layer_pages):
            turn = self._rotation = RopeRotation.build(
                positions, angles, rows, layer_pages, qkv.dtype
            )
        half = turning.shape[-1] // 2
        swapped = torch.cat((turning[..., half:], turning[..., :half]), -1)
        turned = torch.addcmul(turning * turn.cosines, swapped, turn.sines)
        query.copy_(turned[:, :heads])
        key, value = turned[:, heads:], qkv[:, heads + pairs :]
        if turn.stored_rows is not None:
            key, value = key[turn.stored_rows], value[turn.stored_rows]
        if scales is None:
            turn.store(layer_pages, key, value)
            return
        slots = rows if turn.stored_rows is None else rows[turn.stored_rows]
        pages, offsets = slots // layer_pages.shape[2], slots % layer_pages.shape[2]
        both = torch.stack((key, value), 1)  # [n, 2, K, D]
        coded = encode_heads(both, layer_pages.dtype)
        layer_pages[pages, :, offsets], scales[pages, :, :, offsets] = coded

    def attend(
        self,
        query: Tensor,
        layer_pages: Tensor,
        rows: PagedRows,
        score: Score,
        out: Tensor,
        scales: Tensor | None = None,
    ) -> None:
        """See `Kernels.attend`; `rows` are those of the batch that the engine has begun."""
        layer = layer_pages.storage_offset() // layer_pages.stride(1) // 2
        current_attention().attend_pages(layer, query, score, out)

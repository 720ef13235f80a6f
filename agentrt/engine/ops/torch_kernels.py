"""The set that needs no compiler: what a CPU without one gets, and what runs anywhere.

Attention in tiles (`attention`), the rest with torch's own operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional

from agentrt.engine.ops.attention import current
from agentrt.engine.sampling.torch_sampler import sample_rows
from agentrt_kernels.contract import HeadNorms, PagedRows, Score
from agentrt_kernels.reference import Reference


@dataclass(frozen=True, slots=True)
class RopeRotation:
    """What all layers of one forward have in common; they are given the same tensors.

    Attributes:
        given: Positions, angles and slots.
        strides: Of the pages.
        cosines: `[T, 1, D]`.
        sines: `[T, 1, D]`, with the sign that each half of a head wants.
        kept: `[n]` rows that are stored, or None for all.
        places: `[n]` where, in tokens from the first key of the layer.
    """

    given: tuple[Tensor, Tensor, Tensor]
    strides: tuple[int, ...]
    cosines: Tensor
    sines: Tensor
    kept: Tensor | None
    places: Tensor

    @classmethod
    def of(
        cls, positions: Tensor, angles: Tensor, rows: Tensor, pages: Tensor, dtype: torch.dtype
    ) -> RopeRotation:
        """Of one forward."""
        cos, sin = angles[positions].to(dtype)[:, None].chunk(2, -1)  # [T, 1, D / 2]
        kept = None if bool((rows >= 0).all()) else (rows >= 0).nonzero()[:, 0]
        stored = rows if kept is None else rows[kept]
        size = pages.shape[2]
        between = pages.stride(0) // pages.stride(2) - size  # tokens' room from page to page
        return cls(
            given=(positions, angles, rows),
            strides=pages.stride(),
            cosines=torch.cat((cos, cos), -1),
            sines=torch.cat((-sin, sin), -1),
            kept=kept,
            places=stored + stored // size * between,
        )

    def serves(self, positions: Tensor, angles: Tensor, rows: Tensor, pages: Tensor) -> bool:
        """Whether these are the tensors it was made of."""
        mine = self.given
        same = positions is mine[0] and angles is mine[1] and rows is mine[2]
        return same and pages.stride() == self.strides

    def store(self, pages: Tensor, key: Tensor, value: Tensor) -> None:
        """`key` and `value` `[n, K, D]` into `pages` `[pages, 2, P, K, D]`."""
        width = pages.stride(2)
        shape = (pages.stride(0) // width * (pages.shape[0] - 1) + pages.shape[2], width)
        for offset, part in ((0, key), (pages.stride(1), value)):
            flat = pages.as_strided(shape, (width, 1), pages.storage_offset() + offset)
            flat.index_copy_(0, self.places, part.reshape(-1, width))


class TorchKernels(Reference):
    """torch's fused operations where it has them, tiles for attention, the reference elsewhere."""

    name = "torch"

    def __init__(self) -> None:
        self._turn: RopeRotation | None = None

    def rms_norm(self, x: Tensor, weight: Tensor, epsilon: float, out: Tensor) -> None:
        """See `Kernels.rms_norm`."""
        out.copy_(functional.rms_norm(x, weight.shape, weight, epsilon))

    def add_rms_norm(
        self, delta: Tensor, residual: Tensor, weight: Tensor, epsilon: float, out: Tensor
    ) -> None:
        """See `Kernels.add_rms_norm`."""
        residual.add_(delta)
        out.copy_(functional.rms_norm(residual, weight.shape, weight, epsilon))

    def silu_mul(self, gate_up: Tensor, out: Tensor) -> None:
        """See `Kernels.silu_mul`."""
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
    ) -> None:
        """See `Kernels.rope_store`."""
        heads, pairs = query.shape[1], layer_pages.shape[3]
        turning = qkv[:, : heads + pairs]
        if norms is not None:
            width = norms.query.shape
            first = functional.rms_norm(turning[:, :heads], width, norms.query, norms.epsilon)
            second = functional.rms_norm(turning[:, heads:], width, norms.key, norms.epsilon)
            turning = torch.cat((first, second), 1)
        turn = self._turn
        if turn is None or not turn.serves(positions, angles, rows, layer_pages):
            turn = self._turn = RopeRotation.of(positions, angles, rows, layer_pages, qkv.dtype)
        half = turning.shape[-1] // 2
        swapped = torch.cat((turning[..., half:], turning[..., :half]), -1)
        turned = torch.addcmul(turning * turn.cosines, swapped, turn.sines)
        query.copy_(turned[:, :heads])
        key, value = turned[:, heads:], qkv[:, heads + pairs :]
        if turn.kept is not None:
            key, value = key[turn.kept], value[turn.kept]
        turn.store(layer_pages, key, value)

    def attend(
        self, query: Tensor, layer_pages: Tensor, rows: PagedRows, score: Score, out: Tensor
    ) -> None:
        """See `Kernels.attend`; `rows` are those of the batch that the engine has begun."""
        layer = layer_pages.storage_offset() // layer_pages.stride(1) // 2
        current().over_pages(layer, query, score, out)

    def sample(
        self,
        logits: Tensor,
        mask: Tensor | None,
        temperature: Tensor,
        top_k: Tensor,
        top_p: Tensor,
        min_p: Tensor,
        uniform: Tensor,
        out: Tensor,
    ) -> None:
        """See `Kernels.sample`."""
        sample_rows(logits, mask, temperature, top_k, top_p, min_p, uniform, out)

    def grouped_linear(self, x: Tensor, weight: Tensor, expert_start: Tensor, out: Tensor) -> None:
        """See `Kernels.grouped_linear`."""
        for expert, (start, stop) in enumerate(pairwise(expert_start.tolist())):
            torch.mm(x[start:stop], weight[expert].t(), out=out[start:stop])

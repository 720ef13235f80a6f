"""The contract in plain torch: what the other sets are held to, on any device.

Written to be read, not to be fast: it reads lengths back to the host and gathers whole histories.
Each operation computes in fp32 (the sampler in fp64) and rounds once, where it writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from agentrt_kernels.contract import SILU, Activation, HeadNorms, PagedRows, Score
from agentrt_kernels.kv_codes import decode_heads, encode_heads
from agentrt_kernels.looped_experts import LoopedCodes, packed_each
from agentrt_kernels.quantised_weight import QuantisedWeight, Stored, quantised_linear
from agentrt_kernels.routes import TorchRouting

NEGLIGIBLE = 40.0
"""A token whose logit is this much below the largest, e^-40 times as likely, is never drawn."""


@dataclass(frozen=True, slots=True)
class ReferenceLinear:
    """A matrix of codes, unpacked for each product.

    Attributes:
        weight: The matrix.
        bias: `[N]`, or None.
    """

    weight: QuantisedWeight
    bias: Tensor | None

    @property
    def resident_bytes(self) -> int:
        """Bytes of the weight as it is kept."""
        weight = self.weight
        held = (weight.values, weight.scales, weight.zeros, weight.order)
        return sum(one.nbytes for one in held if one is not None)

    def apply(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """See `CodeLinear.apply`."""
        made = quantised_linear(x, self.weight, self.bias)
        return made.to(x.dtype) if out is None else out.copy_(made)


class ReferenceExperts(LoopedCodes):
    """Matrices of codes of experts, in one form, multiplied one after the other.

    Args:
        like: A matrix of their form.
        parts: Tensors of all of them, see `MovableLinear.parts`.

    Attributes:
        parts: See the arguments.
    """

    def __init__(self, like: ReferenceLinear, parts: Sequence[Tensor]) -> None:
        super().__init__([_linear_over(like, one) for one in zip(*parts, strict=True)])
        self._like, self.parts = like, tuple(parts)

    def over(self, parts: Sequence[Tensor]) -> ReferenceExperts:
        """See `MovableLinear.over`."""
        return ReferenceExperts(self._like, parts)


def _parts_of(linear: ReferenceLinear) -> list[Tensor]:
    weight = linear.weight
    optional = weight.zeros, weight.order, linear.bias
    return [weight.values, weight.scales, *(one for one in optional if one is not None)]


def _linear_over(like: ReferenceLinear, parts: Sequence[Tensor]) -> ReferenceLinear:
    """A linear of that form whose tensors are `parts`, in the order of `_parts_of`."""
    weight, rest = like.weight, iter(parts)
    made = Stored(
        bits=weight.bits,
        values=next(rest),
        scales=next(rest),
        zeros=None if weight.zeros is None else next(rest),
        group=weight.group,
        row_bits=weight.row_bits,
        order=None if weight.order is None else next(rest),
        table=weight.table,
    )
    return ReferenceLinear(made, None if like.bias is None else next(rest))


def _form_of(linear: ReferenceLinear) -> tuple[object, ...]:
    """Form that experts have in common if their codes lie in the same tensors."""
    weight, table = linear.weight, linear.weight.table
    held = weight.zeros is not None, weight.order is not None
    values = None if table is None else tuple(table.nan_to_num().tolist())
    return weight.bits, weight.group, weight.row_bits, values, weight.values.shape, held


class Reference(TorchRouting):
    """Plain torch."""

    name = "reference"

    def pack_codes(self, weight: QuantisedWeight, bias: Tensor | None = None) -> ReferenceLinear:
        """See `Kernels.pack_codes`."""
        return ReferenceLinear(weight, bias)

    def pack_expert_codes(
        self, weights: Sequence[QuantisedWeight], biases: Tensor | None = None
    ) -> LoopedCodes:
        """See `Kernels.pack_expert_codes`; experts of one form are a `MovableLinear`."""
        linears = packed_each(self.pack_codes, weights, biases)
        if len({_form_of(one) for one in linears}) > 1:
            return LoopedCodes(linears)
        parts = zip(*map(_parts_of, linears), strict=True)
        return ReferenceExperts(linears[0], [torch.stack(one) for one in parts])

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
        wide = x.float()
        if centered:
            wide = wide - wide.mean(-1, keepdim=True)
        out.copy_(_normed(wide, weight, epsilon))

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
        """See `Kernels.add_rms_norm`; the norm is of the residual as it was rounded."""
        residual.copy_(residual.float() + delta.float())
        self.rms_norm(residual, weight, epsilon, out, centered=centered)

    def gate_mul(self, gate_up: Tensor, out: Tensor, activation: Activation = SILU) -> None:
        """See `Kernels.gate_mul`."""
        gate, up = gate_up.float().chunk(2, -1)
        gate = gate.clamp(max=activation.limit)
        up = up.clamp(-activation.limit, activation.limit) + activation.shift
        opening = torch.sigmoid(activation.slope * gate + activation.cubic * gate**3)
        out.copy_(gate * opening * up)

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
        heads, page, kv_heads = query.shape[1], layer_pages.shape[2], layer_pages.shape[3]
        q, k, v = torch.tensor_split(qkv.float(), (heads, heads + kv_heads), dim=1)
        if norms is not None:
            if norms.centered:
                q, k = (x - x.mean(-1, keepdim=True) for x in (q, k))
            q = _normed(q, norms.query, norms.epsilon)
            k = _normed(k, norms.key, norms.epsilon)
        cosines, sines = angles[positions][:, None].chunk(2, -1)  # [T, 1, D / 2]
        query.copy_(_rotated(q, cosines, sines))
        kept = rows >= 0
        pages, offsets = rows[kept] // page, rows[kept] % page
        stored = torch.stack([_rotated(k, cosines, sines), v], dim=1)[kept]  # [T, 2, K, D]
        if scales is None:
            layer_pages[pages, :, offsets] = stored.to(layer_pages.dtype)
        else:
            coded = encode_heads(stored, layer_pages.dtype)
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
        """See `Kernels.attend`. A shared prefix is read from each sequence's own pages."""
        starts, kv_tokens = rows.query_start.tolist(), rows.kv_tokens.tolist()
        page = layer_pages.shape[2]
        for sequence, (start, stop) in enumerate(pairwise(starts)):
            if start == stop:
                continue
            tokens = kv_tokens[sequence]
            pages = rows.block_table[sequence, : -(-tokens // page)].long()
            history = layer_pages[pages].float()  # [pages, 2, P, K, D]
            if scales is not None:
                history = decode_heads(layer_pages[pages], scales[pages].transpose(-1, -2))
            keys, values = (history[:, part].flatten(0, 1)[:tokens] for part in (0, 1))
            out[start:stop] = _attention(query[start:stop].float(), keys, values, score).to(
                out.dtype
            )

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
        if mask is not None:
            logits = logits.masked_fill(~_allowed(mask, logits.shape[1]), -torch.inf)
        for row, values in enumerate(logits):
            heat = temperature[row]
            if values.isnan().any():
                out[row] = -1
                continue
            if heat == 0:
                out[row] = values.argmax()
                continue
            settings = int(top_k[row]), float(top_p[row]), float(min_p[row])
            out[row] = _drawn(values / heat, *settings, float(uniform[row]))

    def copy_pages(self, source: Tensor, target: Tensor, pairs: Tensor) -> None:
        """See `Kernels.copy_pages`."""
        here, there = pairs.to(source.device).T[0], pairs.to(target.device).T[1]
        target[there] = source[here].to(target.device)

    def grouped_linear(self, x: Tensor, weight: Tensor, expert_start: Tensor, out: Tensor) -> None:
        """See `Kernels.grouped_linear`."""
        for expert, (start, stop) in enumerate(pairwise(expert_start.tolist())):
            out[start:stop] = (x[start:stop].float() @ weight[expert].float().T).to(out.dtype)


def _normed(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """`x / rms(x) * weight` in fp32, over the last dimension."""
    wide = x.float()
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon) * weight.float()


def _rotated(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Each pair `(x[i], x[i + D / 2])` turned by its angle; `x` is `[T, heads, D]`."""
    first, second = x.chunk(2, -1)
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], -1)


def _attention(query: Tensor, keys: Tensor, values: Tensor, score: Score) -> Tensor:
    """`query` `[rows, H, D]` of the last tokens over `[tokens, K, D]`, all fp32."""
    rows, heads, width = query.shape
    tokens, kv_heads, _ = keys.shape
    grouped = query.view(rows, kv_heads, heads // kv_heads, width)
    scores = torch.einsum("qkgd,nkd->kgqn", grouped, keys) * score.scaling
    if score.softcap is not None:
        scores = score.softcap * torch.tanh(scores / score.softcap)
    place = torch.arange(tokens, device=query.device)
    own = place[tokens - rows :, None]  # a row's own place, [rows, 1]
    hidden = (place > own) | ((place < score.unseen) & (place != own))
    if score.window is not None:
        hidden |= place <= own - score.window
    scores = scores.masked_fill(hidden, -torch.inf).view(heads, rows, tokens)
    if score.sinks is not None:
        empty = score.sinks.float()[:, None, None].expand(heads, rows, 1)
        scores = torch.cat([scores, empty], -1)
    weights = scores.softmax(-1)[..., :tokens].view(kv_heads, -1, rows, tokens)
    return torch.einsum("kgqn,nkd->qkgd", weights, values).reshape(rows, heads, width)


def _allowed(mask: Tensor, vocabulary: int) -> Tensor:
    """`[B, words]` int32 bits, the lowest first, as `[B, V]` bool."""
    bits = torch.arange(32, device=mask.device, dtype=torch.int32)
    return ((mask[:, :, None] >> bits) & 1).bool().flatten(1)[:, :vocabulary]


def _drawn(values: Tensor, top_k: int, top_p: float, min_p: float, uniform: float) -> Tensor:
    """A token of one row; `values` `[V]` fp32 are scaled by the temperature."""
    best = values.max()
    ordered, ids = values.sort(descending=True, stable=True)
    weights = torch.exp((ordered - best).double())
    weights = weights[ordered - best > -NEGLIGIBLE]
    if top_k:
        weights = weights[:top_k]
    kept = weights
    if top_p < 1:
        before = kept.cumsum(-1) - kept
        kept = kept[: max(1, int((before < top_p * weights.sum()).sum()))]
    kept = kept[kept >= min_p]  # the largest weight is 1
    reached = kept.cumsum(-1)
    index = int(torch.searchsorted(reached, uniform * reached[-1:], right=True))
    return ids[min(index, kept.shape[0] - 1)]

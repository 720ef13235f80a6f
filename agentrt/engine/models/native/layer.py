"""One layer behind the linear door."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from agentrt.engine.models.native.experts import Experts, Gated, ready_experts, ready_gated
from agentrt.engine.models.native.layer_weights import GatedWeights, LayerWeights
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.ops.linear import Linear, LinearBackend
from agentrt_kernels.contract import HeadNorms, Score


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer.

    Attributes:
        norm: `[hidden]`, before attention.
        qkv: Queries, keys and values in one.
        head_norms: Of each head, or None.
        query_norm: `[H * D]`, over all heads, or None.
        key_norm: `[K * D]`, the same.
        score: How it attends.
        out: Of attention, back to the stream.
        inner_norm: `[hidden]`, before the gated layer.
        inner: The gated layer, or experts.
    """

    norm: Tensor
    qkv: Linear
    head_norms: HeadNorms | None
    query_norm: Tensor | None
    key_norm: Tensor | None
    score: Score
    out: Linear
    inner_norm: Tensor
    inner: Gated | Experts


def ready_layer(
    shape: DecoderShape, weights: LayerWeights, number: int, door: LinearBackend
) -> Layer:
    """Layer `number` with its matrices as they are multiplied."""
    query_norm, key_norm = weights.query_norm, weights.key_norm
    each = None
    if query_norm is not None and key_norm is not None and shape.head_norms == "each":
        each = HeadNorms(query_norm, key_norm, shape.epsilon)
        query_norm = key_norm = None
    inner = weights.inner
    if isinstance(inner, GatedWeights):
        behind: Gated | Experts = ready_gated(inner, door)
    else:
        assert shape.experts is not None
        behind = ready_experts(shape.experts, inner, door)
    return Layer(
        norm=weights.norm,
        qkv=door.linear(weights.qkv, weights.qkv_bias),
        head_norms=each,
        query_norm=query_norm,
        key_norm=key_norm,
        score=Score(shape.scaling, window=shape.windows[number]),
        out=door.linear(weights.out, weights.out_bias),
        inner_norm=weights.inner_norm,
        inner=behind,
    )

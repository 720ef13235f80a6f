"""One decoder layer, its matrices in their final format."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from agentrt.engine.models.native.experts import Experts, Gated, build_experts, build_gated
from agentrt.engine.models.native.layer_weights import GatedWeights, LayerWeights
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.ops.linear import Linear, LinearBackend
from agentrt_kernels.contract import HeadNorms, Score


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer.

    Attributes:
        norm: `[hidden]`, before attention.
        qkv: Query, key and value projections in one.
        head_norms: Norms of each head, or None.
        query_norm: `[H * D]`, over all heads, or None.
        key_norm: `[K * D]`, the same.
        score: Attention score: scaling, window.
        out: Output projection of attention.
        inner_norm: `[hidden]`, before the MLP.
        inner: The gated MLP, or experts.
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


def build_layer(
    shape: DecoderShape, weights: LayerWeights, number: int, backend: LinearBackend
) -> Layer:
    """Build layer `number` with its matrices in their final format."""
    query_norm, key_norm = weights.query_norm, weights.key_norm
    each = None
    if query_norm is not None and key_norm is not None and shape.head_norms == "each":
        each = HeadNorms(query_norm, key_norm, shape.epsilon)
        query_norm = key_norm = None
    inner = weights.inner
    if isinstance(inner, GatedWeights):
        built_inner: Gated | Experts = build_gated(inner, backend)
    else:
        assert shape.experts is not None
        built_inner = build_experts(shape.experts, inner, backend)
    return Layer(
        norm=weights.norm,
        qkv=backend.linear(weights.qkv, weights.qkv_bias),
        head_norms=each,
        query_norm=query_norm,
        key_norm=key_norm,
        score=Score(shape.scaling, window=shape.windows[number]),
        out=backend.linear(weights.out, weights.out_bias),
        inner_norm=weights.inner_norm,
        inner=built_inner,
    )

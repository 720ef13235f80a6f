"""One decoder layer, taken from the weights of a checkpoint with its matrices in some format."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from agentrt.engine.models.native.expert_weights import (
    Weights,
    bias_of,
    concatenated,
    concatenated_biases,
    plain_weight,
    take_experts,
)
from agentrt.engine.models.native.experts import Experts, Gated, LinearT
from agentrt.engine.models.native.rope import head_order
from agentrt.engine.models.native.shape import DecoderShape, ExpertShape
from agentrt.engine.models.packed_weight import PackedWeight
from agentrt.engine.ops.experts import RoutedExperts
from agentrt_kernels.contract import Activation, HeadNorms, Score
from agentrt_kernels.cpu.experts import ExpertMatrices

LinearT_co = TypeVar("LinearT_co", covariant=True)


class MatrixFormat(Protocol[LinearT_co]):
    """Puts matrices into their final format."""

    def linear(self, weight: Tensor | PackedWeight, bias: Tensor | None = None) -> LinearT_co:
        """Linear layer of `weight` `[N, W]` and `bias` `[N]`."""
        ...

    def experts(self, experts: Iterable[ExpertMatrices], activation: Activation) -> RoutedExperts:
        """The experts of a layer, each drawn once."""
        ...


@dataclass(frozen=True, slots=True)
class Layer(Generic[LinearT]):
    """One decoder layer.

    Attributes:
        norm: `[hidden]`, before attention, or None.
        out_norm: `[hidden]`, of what attention adds to the stream, or None.
        qkv: Query, key and value projections in one, `[(H + 2 * K) * D, hidden]`.
        query_norm: `[D]` or `[H, D]` for each head, `[H * D]` for all, or None.
        key_norm: `[D]`, `[K, D]`, `[K * D]`, or None.
        head_norms: Both norms if they are for each head, or None.
        score: Attention score: scaling, bound, window, sinks.
        out: Output projection of attention, `[hidden, H * D]`.
        inner_norm: `[hidden]`, before the MLP, or None.
        inner_out_norm: `[hidden]`, of what the MLP adds to the stream, or None.
        inner: The gated MLP, or experts.
    """

    norm: Tensor | None
    out_norm: Tensor | None
    qkv: LinearT
    query_norm: Tensor | None
    key_norm: Tensor | None
    head_norms: HeadNorms | None
    score: Score
    out: LinearT
    inner_norm: Tensor | None
    inner_out_norm: Tensor | None
    inner: Gated[LinearT] | Experts[LinearT]


def take_layer(
    shape: DecoderShape, weights: Weights, number: int, matrices: MatrixFormat[LinearT]
) -> Layer[LinearT]:
    """Build layer `number`; its weights are removed, so that memory is freed layer by layer."""
    at = f"model.layers.{number}."
    own = {
        name.removeprefix(at): weights.pop(name) for name in list(weights) if name.startswith(at)
    }
    names = shape.names
    qkv, bias = concatenated(own, names.qkv), None
    if shape.qkv_bias:
        bias = concatenated_biases(own, names.qkv)
    query_norm, key_norm = (_norm(shape, own, f"self_attn.{name}_norm") for name in "qk")
    rows = qkv_rows(shape, number)
    if rows is not None:
        head_indices = torch.tensor(head_order(shape.ropes[number], shape.head_dim))
        qkv = qkv.rows(rows) if isinstance(qkv, PackedWeight) else qkv[rows]
        bias = bias if bias is None else bias[rows]
        if query_norm is not None and key_norm is not None:
            query_norm, key_norm = (
                _reordered(norm.flatten(), norm.numel(), head_indices).view(norm.shape)
                for norm in (query_norm, key_norm)
            )
    head_norms = None
    if query_norm is not None and key_norm is not None and shape.head_norms != "all":
        head_norms = HeadNorms(query_norm, key_norm, shape.epsilon, shape.centered)
    experts = shape.experts if shape.has_experts(number) else None
    return Layer(
        norm=_norm(shape, own, names.norm),
        out_norm=_norm(shape, own, names.out_norm),
        qkv=matrices.linear(qkv, bias),
        query_norm=query_norm,
        key_norm=key_norm,
        head_norms=head_norms,
        score=Score(
            shape.scaling, shape.softcap, shape.windows[number], bias_of(own, "self_attn.sinks")
        ),
        out=matrices.linear(own["self_attn.o_proj.weight"], bias_of(own, "self_attn.o_proj.bias")),
        inner_norm=_norm(shape, own, names.inner_norm),
        inner_out_norm=_norm(shape, own, names.inner_out_norm),
        inner=_experts(shape, experts, own, matrices) if experts else _gated(shape, own, matrices),
    )


def qkv_rows(shape: DecoderShape, number: int) -> Tensor | None:
    """Rows of a checkpoint's query, key and value projections in the order of a layer's rotation.

    None if that is their own.
    """
    order = head_order(shape.ropes[number], shape.head_dim)
    if order == list(range(shape.head_dim)):
        return None
    rotated_rows = shape.query_width + shape.kv_width
    rows = torch.arange(rotated_rows + shape.kv_width)
    return _reordered(rows, rotated_rows, torch.tensor(order))


def norm_weight(shape: DecoderShape, weight: Tensor) -> Tensor:
    """Weight of a norm with its offset, which is added in fp32."""
    return weight.float() + shape.norm_offset if shape.norm_offset else weight


def embedding_scale(shape: DecoderShape, dtype: torch.dtype) -> float:
    """Factor of the embeddings in a model of this dtype."""
    if shape.rounds_embedding_scale:
        return float(torch.tensor(shape.embedding_scale, dtype=dtype))
    return shape.embedding_scale


def _norm(shape: DecoderShape, own: Weights, name: str) -> Tensor | None:
    weight = bias_of(own, f"{name}.weight")
    return None if weight is None else norm_weight(shape, weight)


def _gated(shape: DecoderShape, own: Weights, matrices: MatrixFormat[LinearT]) -> Gated[LinearT]:
    names = shape.names
    bias = concatenated_biases(own, names.gate_up) if shape.mlp_bias else None
    down = own[f"{names.down}.weight"]
    return Gated(
        matrices.linear(concatenated(own, names.gate_up), bias),
        matrices.linear(down, bias_of(own, f"{names.down}.bias")),
        down.shape[1],
        shape.activation,
    )


def _experts(
    shape: DecoderShape, experts: ExpertShape, own: Weights, matrices: MatrixFormat[LinearT]
) -> Experts[LinearT]:
    router = plain_weight(own, f"{shape.names.router}.weight")
    shared = shared_gate = None
    if experts.shared_inner:
        both = ("mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj")
        down = own["mlp.shared_expert.down_proj.weight"]
        shared_gate_up = matrices.linear(concatenated(own, both))
        shared = Gated(
            shared_gate_up, matrices.linear(down), experts.shared_inner, shape.activation
        )
        shared_gate = matrices.linear(own["mlp.shared_expert_gate.weight"])
    return Experts(
        shape=experts,
        router=matrices.linear(router, bias_of(own, f"{shape.names.router}.bias")),
        routed=matrices.experts(take_experts(shape.names, experts, own), shape.activation),
        shared=shared,
        shared_gate=shared_gate,
    )


def _reordered(rows: Tensor, rotated_rows: int, head_indices: Tensor) -> Tensor:
    """`rows` `[heads * D]` with each head's values reordered in the first `rotated_rows`."""
    heads = rows[:rotated_rows].view(-1, head_indices.shape[0], *rows.shape[1:])
    return torch.cat(
        (heads[:, head_indices].reshape(rotated_rows, *rows.shape[1:]), rows[rotated_rows:])
    )

"""The weights of one layer, concatenated and in the order in which they are computed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from agentrt.engine.models.native.rope import head_order
from agentrt.engine.models.native.shape import DecoderShape

Weights = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class GatedWeights:
    """Weights of a gated MLP; matrices are `[out, in]`.

    Attributes:
        gate_up: `[2 * I, hidden]`, gate first.
        gate_up_bias: `[2 * I]`, or None.
        down: `[hidden, I]`.
        down_bias: `[hidden]`, or None.
    """

    gate_up: Tensor
    gate_up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None


@dataclass(frozen=True, slots=True)
class ExpertWeights:
    """Weights of experts behind a router.

    Attributes:
        router: `[E, hidden]`.
        gate_up: `[E, 2 * I, hidden]`.
        down: `[E, hidden, I]`.
        shared: Shared expert that every token takes, or None.
        shared_gate: `[1, hidden]` weight of the shared expert, or None.
    """

    router: Tensor
    gate_up: Tensor
    down: Tensor
    shared: GatedWeights | None
    shared_gate: Tensor | None


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """Weights of one layer.

    Attributes:
        norm: `[hidden]`, before attention.
        qkv: `[(H + 2 * K) * D, hidden]`.
        qkv_bias: `[(H + 2 * K) * D]`, or None.
        query_norm: `[D]` for each head, `[H * D]` for all, or None.
        key_norm: `[D]`, `[K * D]`, or None.
        out: `[hidden, H * D]`.
        out_bias: `[hidden]`, or None.
        inner_norm: `[hidden]`, after attention.
        inner: Weights of the MLP or the experts.
    """

    norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    query_norm: Tensor | None
    key_norm: Tensor | None
    out: Tensor
    out_bias: Tensor | None
    inner_norm: Tensor
    inner: GatedWeights | ExpertWeights


def take_layer_weights(shape: DecoderShape, weights: Weights, number: int) -> LayerWeights:
    """Remove layer `number` from `weights`, so that memory is freed layer by layer."""
    at = f"model.layers.{number}."
    own = {
        name.removeprefix(at): weights.pop(name) for name in list(weights) if name.startswith(at)
    }
    qkv, bias = _concatenated(own, shape.names.qkv, "weight"), None
    if shape.qkv_bias:
        bias = _concatenated(own, shape.names.qkv, "bias")
    query_norm, key_norm = own.get("self_attn.q_norm.weight"), own.get("self_attn.k_norm.weight")
    order = head_order(shape.rope, shape.head_dim)
    if order != list(range(shape.head_dim)):
        head_indices = torch.tensor(order, device=qkv.device)
        rotated_rows = shape.query_width + shape.kv_width
        qkv = _reordered(qkv, rotated_rows, head_indices)
        bias = bias if bias is None else _reordered(bias, rotated_rows, head_indices)
        if query_norm is not None and key_norm is not None:
            query_norm = _reordered(query_norm, query_norm.shape[0], head_indices)
            key_norm = _reordered(key_norm, key_norm.shape[0], head_indices)
    return LayerWeights(
        norm=own["input_layernorm.weight"],
        qkv=qkv,
        qkv_bias=bias,
        query_norm=query_norm,
        key_norm=key_norm,
        out=own["self_attn.o_proj.weight"],
        out_bias=own.get("self_attn.o_proj.bias"),
        inner_norm=own["post_attention_layernorm.weight"],
        inner=_experts(shape, own) if shape.has_experts(number) else _gated(shape, own),
    )


def _gated(shape: DecoderShape, own: Weights) -> GatedWeights:
    names = shape.names
    return GatedWeights(
        gate_up=_concatenated(own, names.gate_up, "weight"),
        gate_up_bias=_concatenated(own, names.gate_up, "bias") if shape.mlp_bias else None,
        down=own[f"{names.down}.weight"],
        down_bias=own.get(f"{names.down}.bias"),
    )


def _experts(shape: DecoderShape, own: Weights) -> ExpertWeights:
    names, experts = shape.names, shape.experts
    assert experts is not None
    at = [names.expert.format(number) for number in range(experts.count)]
    gate_up = [_concatenated(own, tuple(one + name for name in names.expert_gate_up)) for one in at]
    shared = None
    if experts.shared_inner:
        both = ("mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj")
        down = own["mlp.shared_expert.down_proj.weight"]
        shared = GatedWeights(_concatenated(own, both), None, down, None)
    return ExpertWeights(
        router=own[f"{names.router}.weight"],
        gate_up=torch.stack(gate_up),
        down=torch.stack([own.pop(f"{one}{names.expert_down}.weight") for one in at]),
        shared=shared,
        shared_gate=own.get("mlp.shared_expert_gate.weight"),
    )


def _concatenated(own: Weights, names: tuple[str, ...], kind: str = "weight") -> Tensor:
    parts = [own.pop(f"{name}.{kind}") for name in names]
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def _reordered(rows: Tensor, rotated_rows: int, head_indices: Tensor) -> Tensor:
    """`rows` `[heads * D, ...]` with each head's values reordered in the first `rotated_rows`."""
    heads = rows[:rotated_rows].view(-1, head_indices.shape[0], *rows.shape[1:])
    return torch.cat(
        (heads[:, head_indices].reshape(rotated_rows, *rows.shape[1:]), rows[rotated_rows:])
    )

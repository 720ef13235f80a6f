"""The weights of one layer, joined and put in the order in which they are computed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from agentrt.engine.models.native.rope import head_order
from agentrt.engine.models.native.shape import DecoderShape

Weights = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class GatedWeights:
    """A gated layer; matrices are `[out, in]`.

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
    """Experts behind a router.

    Attributes:
        router: `[E, hidden]`.
        gate_up: `[E, 2 * I, hidden]`.
        down: `[E, hidden, I]`.
        shared: What every token takes, or None.
        shared_gate: `[1, hidden]` how much of it, or None.
    """

    router: Tensor
    gate_up: Tensor
    down: Tensor
    shared: GatedWeights | None
    shared_gate: Tensor | None


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer.

    Attributes:
        norm: `[hidden]`, before attention.
        qkv: `[(H + 2 * K) * D, hidden]`.
        qkv_bias: `[(H + 2 * K) * D]`, or None.
        query_norm: `[D]` of each head, `[H * D]` of all, or None.
        key_norm: `[D]`, `[K * D]`, or None.
        out: `[hidden, H * D]`.
        out_bias: `[hidden]`, or None.
        inner_norm: `[hidden]`, after attention.
        inner: What stands behind it.
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


def take_layer(shape: DecoderShape, weights: Weights, number: int) -> LayerWeights:
    """Layer `number`, taken out of `weights`, so that they can be let go of one by one."""
    at = f"model.layers.{number}."
    mine = {
        name.removeprefix(at): weights.pop(name) for name in list(weights) if name.startswith(at)
    }
    qkv, bias = _joined(mine, shape.names.qkv, "weight"), None
    if shape.qkv_bias:
        bias = _joined(mine, shape.names.qkv, "bias")
    query_norm, key_norm = mine.get("self_attn.q_norm.weight"), mine.get("self_attn.k_norm.weight")
    order = head_order(shape.rope, shape.head_dim)
    if order != list(range(shape.head_dim)):
        places = torch.tensor(order, device=qkv.device)
        turning = shape.query_width + shape.kv_width
        qkv = _in_order(qkv, turning, places)
        bias = bias if bias is None else _in_order(bias, turning, places)
        if query_norm is not None and key_norm is not None:
            query_norm = _in_order(query_norm, query_norm.shape[0], places)
            key_norm = _in_order(key_norm, key_norm.shape[0], places)
    return LayerWeights(
        norm=mine["input_layernorm.weight"],
        qkv=qkv,
        qkv_bias=bias,
        query_norm=query_norm,
        key_norm=key_norm,
        out=mine["self_attn.o_proj.weight"],
        out_bias=mine.get("self_attn.o_proj.bias"),
        inner_norm=mine["post_attention_layernorm.weight"],
        inner=_experts(shape, mine) if shape.has_experts(number) else _gated(shape, mine),
    )


def _gated(shape: DecoderShape, mine: Weights) -> GatedWeights:
    names = shape.names
    return GatedWeights(
        gate_up=_joined(mine, names.gate_up, "weight"),
        gate_up_bias=_joined(mine, names.gate_up, "bias") if shape.mlp_bias else None,
        down=mine[f"{names.down}.weight"],
        down_bias=mine.get(f"{names.down}.bias"),
    )


def _experts(shape: DecoderShape, mine: Weights) -> ExpertWeights:
    names, experts = shape.names, shape.experts
    assert experts is not None
    at = [names.expert.format(number) for number in range(experts.count)]
    gate_up = [_joined(mine, tuple(one + name for name in names.expert_gate_up)) for one in at]
    shared = None
    if experts.shared_inner:
        both = ("mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj")
        down = mine["mlp.shared_expert.down_proj.weight"]
        shared = GatedWeights(_joined(mine, both), None, down, None)
    return ExpertWeights(
        router=mine[f"{names.router}.weight"],
        gate_up=torch.stack(gate_up),
        down=torch.stack([mine.pop(f"{one}{names.expert_down}.weight") for one in at]),
        shared=shared,
        shared_gate=mine.get("mlp.shared_expert_gate.weight"),
    )


def _joined(mine: Weights, names: tuple[str, ...], kind: str = "weight") -> Tensor:
    parts = [mine.pop(f"{name}.{kind}") for name in names]
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def _in_order(rows: Tensor, turning: int, places: Tensor) -> Tensor:
    """The first `turning` of `rows` `[heads * D, ...]` with each head's values in another order."""
    heads = rows[:turning].view(-1, places.shape[0], *rows.shape[1:])
    return torch.cat((heads[:, places].reshape(turning, *rows.shape[1:]), rows[turning:]))

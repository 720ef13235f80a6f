"""The weights of one layer, packed and behind the linear door."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from agentrt.engine.fastpath.experts import Experts, Gated, load_experts
from agentrt.engine.fastpath.rope import head_order
from agentrt.engine.fastpath.shape import DecoderShape
from agentrt.engine.linear import Linear, LinearDoor
from agentrt_kernels.contract import HeadNorms, Score

Weights = dict[str, Tensor]


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


def load_layer(shape: DecoderShape, weights: Weights, number: int, door: LinearDoor) -> Layer:
    """Layer `number` of `weights`, which are taken out of there."""
    at = f"model.layers.{number}."
    mine = {name.removeprefix(at): weights.pop(name) for name in _names(weights, at)}
    order = _order(shape, mine["input_layernorm.weight"].device)
    query_norm, key_norm = mine.get("self_attn.q_norm.weight"), mine.get("self_attn.k_norm.weight")
    each = None
    if query_norm is not None and key_norm is not None:
        query_norm, key_norm = _ordered(query_norm, shape, order), _ordered(key_norm, shape, order)
        if shape.head_norms == "each":
            each = HeadNorms(query_norm, key_norm, shape.epsilon)
            query_norm = key_norm = None
    bias = _joined(mine, shape.names.qkv, "bias") if shape.qkv_bias else None
    qkv = _joined(mine, shape.names.qkv, "weight")
    if order is not None:
        qkv = _turned(qkv, shape, order)
        bias = bias if bias is None else _turned(bias, shape, order)
    return Layer(
        norm=mine["input_layernorm.weight"],
        qkv=door.linear(qkv, bias),
        head_norms=each,
        query_norm=query_norm,
        key_norm=key_norm,
        score=Score(shape.scaling, window=shape.windows[number]),
        out=door.linear(mine["self_attn.o_proj.weight"], mine.get("self_attn.o_proj.bias")),
        inner_norm=mine["post_attention_layernorm.weight"],
        inner=_inner(shape, mine, number, door),
    )


def _inner(shape: DecoderShape, mine: Weights, number: int, door: LinearDoor) -> Gated | Experts:
    if shape.experts is not None and shape.has_experts(number):
        return load_experts(shape.experts, shape.names, mine, door)
    names = shape.names
    bias = _joined(mine, names.gate_up, "bias") if shape.mlp_bias else None
    return Gated(
        door.linear(_joined(mine, names.gate_up, "weight"), bias),
        door.linear(mine.pop(f"{names.down}.weight"), mine.get(f"{names.down}.bias")),
        shape.inner,
    )


def _names(weights: Weights, at: str) -> list[str]:
    return [name for name in weights if name.startswith(at)]


def _joined(mine: Weights, names: tuple[str, ...], kind: str) -> Tensor:
    parts = [mine.pop(f"{name}.{kind}") for name in names]
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def _order(shape: DecoderShape, device: torch.device) -> Tensor | None:
    """Where a head's values come from; None where they stay."""
    order = head_order(shape.rope, shape.head_dim)
    if order == list(range(shape.head_dim)):
        return None
    return torch.tensor(order, device=device)


def _ordered(norm: Tensor, shape: DecoderShape, order: Tensor | None) -> Tensor:
    """The weight of a norm, `[heads * D]`, in the order of the heads' values."""
    if order is None:
        return norm
    return norm.view(-1, shape.head_dim)[:, order].reshape(norm.shape)


def _turned(rows: Tensor, shape: DecoderShape, order: Tensor) -> Tensor:
    """Rows `[(H + 2 * K) * D, ...]`, queries and keys in another order."""
    turning = shape.query_width + shape.kv_width
    heads = rows[:turning].view(-1, shape.head_dim, *rows.shape[1:])
    return torch.cat((heads[:, order].reshape(turning, *rows.shape[1:]), rows[turning:]))

"""Weights of a layer's experts, as checkpoints name them and as the engine multiplies with them.

Letters of the shapes: E experts, W hidden width, I inner width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from agentrt.base.errors import InternalError
from agentrt.engine.models.native.shape import ExpertShape, WeightNames
from agentrt.engine.models.packed_weight import PackedWeight, concatenated_rows

Shapes = dict[str, tuple[int, ...]]
Weights = dict[str, Tensor | PackedWeight]


@dataclass(frozen=True, slots=True)
class ExpertWeights:
    """Projections of all experts of a layer.

    Attributes:
        gate_up: `[E, 2 * I, W]`, gate first.
        gate_up_bias: `[E, 2 * I]`, or None.
        down: `[E, W, I]`.
        down_bias: `[E, W]`, or None.
    """

    gate_up: Tensor
    gate_up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None


def expert_shapes(names: WeightNames, experts: ExpertShape, hidden: int) -> Shapes:
    """Names and shapes of the weights of router and experts."""
    count, inner, shared = experts.count, experts.inner, experts.shared_inner
    found: Shapes = {f"{names.router}.weight": (count, hidden)}
    if experts.biased:
        found[f"{names.router}.bias"] = (count,)
    if names.stacked:
        found |= _stacked_shapes(names, experts, hidden)
    else:
        for number in range(count):
            at = names.expert.format(number)
            found |= {f"{at}{name}.weight": (inner, hidden) for name in names.expert_gate_up}
            found[f"{at}{names.expert_down}.weight"] = (hidden, inner)
    if shared:
        found |= {
            "mlp.shared_expert.gate_proj.weight": (shared, hidden),
            "mlp.shared_expert.up_proj.weight": (shared, hidden),
            "mlp.shared_expert.down_proj.weight": (hidden, shared),
            "mlp.shared_expert_gate.weight": (1, hidden),
        }
    return found


def take_experts(names: WeightNames, experts: ExpertShape, own: Weights) -> ExpertWeights:
    """Projections of a layer's experts, removed from its weights `own`."""
    if names.stacked:
        return _stacked_experts(names, own)
    at = [names.expert.format(number) for number in range(experts.count)]
    halves = [tuple(one + name for name in names.expert_gate_up) for one in at]
    gate_up = torch.stack(
        [torch.cat([plain_weight(own, f"{name}.weight") for name in one]) for one in halves]
    )
    down = torch.stack([plain_weight(own, f"{one}{names.expert_down}.weight") for one in at])
    return ExpertWeights(gate_up, None, down, None)


def concatenated(own: Weights, names: tuple[str, ...]) -> Tensor | PackedWeight:
    """Several matrices in one, removed from `own`; quantised ones if all are."""
    parts = [own.pop(f"{name}.weight") for name in names]
    packed = [one for one in parts if isinstance(one, PackedWeight)]
    if not packed:
        plain = [one for one in parts if isinstance(one, Tensor)]
        return torch.cat(plain) if len(plain) > 1 else plain[0]
    if len(packed) < len(parts):
        raise InternalError(f"of {', '.join(names)} some are quantised and some are not")
    return concatenated_rows(packed) if len(packed) > 1 else packed[0]


def concatenated_biases(own: Weights, names: tuple[str, ...]) -> Tensor:
    """Several biases in one, removed from `own`."""
    parts = [plain_weight(own, f"{name}.bias") for name in names]
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def plain_weight(own: Weights, name: str) -> Tensor:
    """A weight that is never quantised, removed from `own`."""
    return _plain(own.pop(name), name)


def bias_of(own: Weights, name: str) -> Tensor | None:
    """A bias, or another weight that may be absent and is never quantised."""
    weight = own.get(name)
    return None if weight is None else _plain(weight, name)


def _plain(weight: Tensor | PackedWeight, name: str) -> Tensor:
    if isinstance(weight, PackedWeight):
        raise InternalError(f"{name} is quantised, which nothing computes with")
    return weight


def _stacked_shapes(names: WeightNames, experts: ExpertShape, hidden: int) -> Shapes:
    count, inner = experts.count, experts.inner
    gate_up, down = names.expert + names.expert_gate_up[0], names.expert + names.expert_down
    found: Shapes = {gate_up: (count, hidden, 2 * inner), down: (count, inner, hidden)}
    if experts.biased:
        found |= {f"{gate_up}_bias": (count, 2 * inner), f"{down}_bias": (count, hidden)}
    return found


def _stacked_experts(names: WeightNames, own: Weights) -> ExpertWeights:
    gate_up, down = names.expert + names.expert_gate_up[0], names.expert + names.expert_down
    gate_up_bias = bias_of(own, f"{gate_up}_bias")
    return ExpertWeights(
        gate_up=_gates_first(plain_weight(own, gate_up).transpose(1, 2)),
        gate_up_bias=None if gate_up_bias is None else _gates_first(gate_up_bias),
        down=plain_weight(own, down).transpose(1, 2).contiguous(),
        down_bias=bias_of(own, f"{down}_bias"),
    )


def _gates_first(rows: Tensor) -> Tensor:
    """`[E, 2 * I, ...]` with the rows of gate and up taking turns, as gates and then ups."""
    return torch.cat((rows[:, ::2], rows[:, 1::2]), 1)

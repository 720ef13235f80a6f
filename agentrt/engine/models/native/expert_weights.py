"""Weights of a layer's experts, as checkpoints name them and as the engine multiplies with them.

Letters of the shapes: E experts, W hidden width, I inner width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from agentrt.engine.models.native.shape import ExpertShape, WeightNames

Shapes = dict[str, tuple[int, ...]]
Weights = dict[str, Tensor]


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
    gate_up = torch.stack([concatenated(own, names_of_one) for names_of_one in halves])
    down = torch.stack([own.pop(f"{one}{names.expert_down}.weight") for one in at])
    return ExpertWeights(gate_up, None, down, None)


def concatenated(own: Weights, names: tuple[str, ...], kind: str = "weight") -> Tensor:
    """Several matrices or biases in one, removed from `own`."""
    parts = [own.pop(f"{name}.{kind}") for name in names]
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def _stacked_shapes(names: WeightNames, experts: ExpertShape, hidden: int) -> Shapes:
    count, inner = experts.count, experts.inner
    gate_up, down = names.expert + names.expert_gate_up[0], names.expert + names.expert_down
    found: Shapes = {gate_up: (count, hidden, 2 * inner), down: (count, inner, hidden)}
    if experts.biased:
        found |= {f"{gate_up}_bias": (count, 2 * inner), f"{down}_bias": (count, hidden)}
    return found


def _stacked_experts(names: WeightNames, own: Weights) -> ExpertWeights:
    gate_up, down = names.expert + names.expert_gate_up[0], names.expert + names.expert_down
    gate_up_bias = own.pop(f"{gate_up}_bias", None)
    return ExpertWeights(
        gate_up=_gates_first(own.pop(gate_up).transpose(1, 2)),
        gate_up_bias=None if gate_up_bias is None else _gates_first(gate_up_bias),
        down=own.pop(down).transpose(1, 2).contiguous(),
        down_bias=own.pop(f"{down}_bias", None),
    )


def _gates_first(rows: Tensor) -> Tensor:
    """`[E, 2 * I, ...]` with the rows of gate and up taking turns, as gates and then ups."""
    return torch.cat((rows[:, ::2], rows[:, 1::2]), 1)

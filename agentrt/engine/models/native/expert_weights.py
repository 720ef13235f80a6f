"""Weights of a layer's experts, as checkpoints name them and as the engine multiplies with them.

Letters of the shapes: E experts, W hidden width, I inner width.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from agentrt.base.errors import InternalError
from agentrt.engine.models.native.shape import ExpertShape, WeightNames
from agentrt.engine.models.packed_form import in_one_form
from agentrt.engine.models.packed_weight import PackedWeight, concatenated_rows
from agentrt_kernels.cpu.experts import ExpertMatrices

Shapes = dict[str, tuple[int, ...]]
Weights = dict[str, Tensor | PackedWeight]


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


def take_experts(
    names: WeightNames, experts: ExpertShape, own: Weights
) -> Iterator[ExpertMatrices]:
    """A layer's experts one after the other, each removed from its weights `own` when drawn."""
    if names.stacked:
        yield from _stacked_experts(names, experts, own)
        return
    for number in range(experts.count):
        at = names.expert.format(number)
        gate_up = concatenated(own, tuple(at + name for name in names.expert_gate_up))
        yield ExpertMatrices(gate_up, None, own.pop(f"{at}{names.expert_down}.weight"), None)


def concatenated(own: Weights, names: tuple[str, ...]) -> Tensor | PackedWeight:
    """Several matrices in one, removed from `own`; quantised ones if all are."""
    parts = [own.pop(f"{name}.weight") for name in names]
    packed = [one for one in parts if isinstance(one, PackedWeight)]
    if not packed:
        plain = [one for one in parts if isinstance(one, Tensor)]
        return torch.cat(plain) if len(plain) > 1 else plain[0]
    if len(packed) < len(parts):
        raise InternalError(f"of {', '.join(names)} some are quantised and some are not")
    return concatenated_rows(in_one_form(packed)) if len(packed) > 1 else packed[0]


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


def _stacked_experts(
    names: WeightNames, experts: ExpertShape, own: Weights
) -> Iterator[ExpertMatrices]:
    gate_up_name = names.expert + names.expert_gate_up[0]
    down_name = names.expert + names.expert_down
    gate_up, down = own.pop(gate_up_name), own.pop(down_name)
    gate_up_bias, down_bias = (bias_of(own, f"{name}_bias") for name in (gate_up_name, down_name))
    order = torch.arange(2 * experts.inner).view(-1, 2).t().flatten()  # gates and ups take turns
    for number in range(experts.count):
        yield ExpertMatrices(
            gate_up=_rows(_one_expert(gate_up, number, experts.count), order),
            gate_up_bias=None if gate_up_bias is None else gate_up_bias[number][order],
            down=_one_expert(down, number, experts.count),
            down_bias=None if down_bias is None else down_bias[number],
        )


def _one_expert(stacked: Tensor | PackedWeight, number: int, count: int) -> Tensor | PackedWeight:
    """`[N, W]` of `[E, W, N]`, or of all experts' rows `[E * N, W]` as quantised ones are kept."""
    if isinstance(stacked, Tensor) and stacked.dim() == 3:
        return stacked[number].t()
    rows = stacked.shape[0] // count
    return _rows(stacked, slice(number * rows, (number + 1) * rows))


def _rows(weight: Tensor | PackedWeight, wanted: Tensor | slice) -> Tensor | PackedWeight:
    return weight.rows(wanted) if isinstance(weight, PackedWeight) else weight[wanted]

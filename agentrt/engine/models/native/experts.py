"""What stands after attention: a gated layer, or experts of which each token takes a few.

Rows are sorted by expert, so that each expert multiplies its own rows only; nothing is computed for
experts that were not chosen, and nothing loops over tokens.

Letters of the shapes: T tokens, A experts a token takes, E experts, I inner width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from agentrt.engine.models.native.layer_weights import ExpertWeights, GatedWeights
from agentrt.engine.models.native.shape import ExpertShape
from agentrt.engine.models.native.workspace import Rows
from agentrt.engine.ops.linear import GroupedLinear, Linear, LinearBackend
from agentrt_kernels.contract import Kernels


@dataclass(frozen=True, slots=True)
class Gated:
    """`down(silu(gate(x)) * up(x))`.

    Attributes:
        gate_up: Both in one.
        down: Back.
        width: I.
    """

    gate_up: Linear
    down: Linear
    width: int

    def apply(self, kernels: Kernels, x: Tensor, room: Rows, out: Tensor) -> Tensor:
        """`[T, hidden]` to the same, which may lie in `out`."""
        gate_up = self.gate_up.apply(x, room.gate_up[:, : 2 * self.width])
        inner = room.inner[:, : self.width]
        kernels.silu_mul(gate_up, inner)
        return self.down.apply(inner, out)


@dataclass(frozen=True, slots=True)
class Experts:
    """Gated layers behind a router.

    Attributes:
        shape: What they look like.
        bounds: `[E + 1]` numbers of the experts, and one more.
        router: Scores of the experts.
        gate_up: Of each.
        down: Of each.
        shared: One that every token takes, or None.
        shared_gate: How much of it.
    """

    shape: ExpertShape
    bounds: Tensor
    router: Linear
    gate_up: GroupedLinear
    down: GroupedLinear
    shared: Gated | None
    shared_gate: Linear | None

    def apply(self, kernels: Kernels, x: Tensor, room: Rows, out: Tensor) -> Tensor:
        """`[T, hidden]` to the same, in `out`."""
        tokens, width = x.shape
        chosen, shares = self._route(x)
        expert_ids, order = chosen.flatten().sort(stable=True)  # [T * A]
        expert_start = torch.searchsorted(expert_ids, self.bounds, out_int32=True)
        rows = torch.index_select(x, 0, order // self.shape.chosen, out=room.sorted)
        self.gate_up.apply(rows, expert_start, room.expert_gate_up)
        kernels.silu_mul(room.expert_gate_up, room.expert_inner)
        made = self.down.apply(room.expert_inner, expert_start, rows)
        room.returned.index_copy_(0, order, made)
        back = room.returned.view(tokens, self.shape.chosen, width)
        out.copy_((back * shares.float()[:, :, None]).sum(1))
        if self.shared is not None and self.shared_gate is not None:
            part = torch.sigmoid(self.shared_gate.apply(x))
            out.add_(self.shared.apply(kernels, x, room, torch.empty_like(x)) * part)
        return out

    def _route(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The experts each token takes, and how much of each: `[T, A]` twice."""
        scores = self.router.apply(x).softmax(-1, dtype=torch.float32)
        shares, chosen = scores.topk(self.shape.chosen, -1)
        if self.shape.sums_to_one:
            shares = shares / shares.sum(-1, keepdim=True)
        return chosen, shares.to(x.dtype) if self.shape.rounds else shares


def ready_gated(weights: GatedWeights, door: LinearBackend) -> Gated:
    """With its matrices as they are multiplied."""
    return Gated(
        door.linear(weights.gate_up, weights.gate_up_bias),
        door.linear(weights.down, weights.down_bias),
        weights.down.shape[1],
    )


def ready_experts(shape: ExpertShape, weights: ExpertWeights, door: LinearBackend) -> Experts:
    """The same for all experts."""
    shared, gate = weights.shared, weights.shared_gate
    return Experts(
        shape=shape,
        bounds=torch.arange(shape.count + 1, device=weights.router.device),
        router=door.linear(weights.router),
        gate_up=door.grouped(weights.gate_up),
        down=door.grouped(weights.down),
        shared=None if shared is None else ready_gated(shared, door),
        shared_gate=None if gate is None else door.linear(gate),
    )

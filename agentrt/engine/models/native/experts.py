"""The part of a layer behind attention: a gated MLP, or a mixture of experts.

Rows are sorted by expert, so that each expert multiplies its own rows only; unused experts compute
nothing, and no loop runs over tokens.

Letters of the shapes: T tokens, A experts per token, E experts, I inner width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from agentrt.engine.models.native.shape import ExpertShape
from agentrt.engine.models.native.workspace import ActivationRows
from agentrt.engine.ops.linear import GroupedLinear, Linear
from agentrt_kernels.contract import Activation, Kernels

LinearT = TypeVar("LinearT")
"""Format of a matrix: a `Linear`, or one that the native call packs."""


@dataclass(frozen=True, slots=True)
class Gated(Generic[LinearT]):
    """A gated MLP: `down(activation(gate(x)) * up(x))`.

    Attributes:
        gate_up: Gate and up projection in one.
        down: Down projection.
        width: I.
        activation: How gates open.
    """

    gate_up: LinearT
    down: LinearT
    width: int
    activation: Activation

    def apply(
        self: Gated[Linear], kernels: Kernels, x: Tensor, rows: ActivationRows, out: Tensor
    ) -> Tensor:
        """`[T, hidden]` to the same, which may be written to `out`."""
        gate_up = self.gate_up.apply(x, rows.gate_up[:, : 2 * self.width])
        inner = rows.inner[:, : self.width]
        kernels.gate_mul(gate_up, inner, self.activation)
        return self.down.apply(inner, out)


@dataclass(frozen=True, slots=True)
class Experts(Generic[LinearT]):
    """Gated MLPs behind a router.

    Attributes:
        shape: Shape of the experts.
        activation: How their gates open.
        bounds: `[E + 1]` numbers of the experts, and one more.
        router: Scores of the experts.
        gate_up: Gate and up projections of all experts.
        down: Down projections of all experts.
        shared: Shared expert that every token takes, or None.
        shared_gate: Weight of the shared expert.
    """

    shape: ExpertShape
    activation: Activation
    bounds: Tensor
    router: LinearT
    gate_up: GroupedLinear
    down: GroupedLinear
    shared: Gated[LinearT] | None
    shared_gate: LinearT | None

    def apply(
        self: Experts[Linear], kernels: Kernels, x: Tensor, buffers: ActivationRows, out: Tensor
    ) -> Tensor:
        """`[T, hidden]` to the same, in `out`."""
        tokens, width = x.shape
        chosen, shares = self._route(x)
        expert_ids, order = chosen.flatten().sort(stable=True)  # [T * A]
        expert_start = torch.searchsorted(expert_ids, self.bounds, out_int32=True)
        rows = torch.index_select(x, 0, order // self.shape.experts_per_token, out=buffers.sorted)
        self.gate_up.apply(rows, expert_start, buffers.expert_gate_up)
        kernels.gate_mul(buffers.expert_gate_up, buffers.expert_inner, self.activation)
        made = self.down.apply(buffers.expert_inner, expert_start, rows)
        buffers.returned.index_copy_(0, order, made)
        returned = buffers.returned.view(tokens, self.shape.experts_per_token, width)
        out.copy_((returned * shares.float()[:, :, None]).sum(1))
        if self.shared is not None and self.shared_gate is not None:
            part = torch.sigmoid(self.shared_gate.apply(x))
            out.add_(self.shared.apply(kernels, x, buffers, torch.empty_like(x)) * part)
        return out

    def _route(self: Experts[Linear], x: Tensor) -> tuple[Tensor, Tensor]:
        """Experts of each token and their weights: `[T, A]` twice."""
        scores = self.router.apply(x).softmax(-1, dtype=torch.float32)
        shares, chosen = scores.topk(self.shape.experts_per_token, -1)
        if self.shape.normalizes_weights:
            shares = shares / shares.sum(-1, keepdim=True)
        return chosen, shares.to(x.dtype) if self.shape.rounds_weights else shares

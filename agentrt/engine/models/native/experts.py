"""The part of a layer behind attention: a gated MLP, or a mixture of experts.

Letters of the shapes: T tokens, A experts per token, E experts, I inner width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from agentrt.engine.models.native.routing import Routing
from agentrt.engine.models.native.shape import ExpertShape
from agentrt.engine.models.native.workspace import ActivationRows
from agentrt.engine.ops.experts import RoutedExperts
from agentrt.engine.ops.linear import Linear
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
        router: Scores of the experts.
        routed: The experts that tokens are sent to.
        shared: Shared expert that every token takes, or None.
        shared_gate: Weight of the shared expert.
    """

    shape: ExpertShape
    router: LinearT
    routed: RoutedExperts
    shared: Gated[LinearT] | None
    shared_gate: LinearT | None

    def apply(
        self: Experts[Linear],
        kernels: Kernels,
        x: Tensor,
        rows: ActivationRows,
        out: Tensor,
        routing: Routing,
    ) -> Tensor:
        """`[T, hidden]` to the same, in `out`; `routing` decides which experts a token takes."""
        self.routed.apply(x, routing(self.router.apply(x), self.shape), rows.experts, out)
        if self.shared is not None and self.shared_gate is not None:
            part = torch.sigmoid(self.shared_gate.apply(x))
            out.add_(self.shared.apply(kernels, x, rows, torch.empty_like(x)) * part)
        return out

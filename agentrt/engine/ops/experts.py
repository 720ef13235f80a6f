"""Gated MLPs of which each token takes a few: the ways to compute them, and what they are given.

Letters of the shapes: T tokens, A experts of a token, E experts, W hidden width, I inner width, N
outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor

from agentrt_kernels.contract import Activation, Kernels
from agentrt_kernels.cpu.experts import PackedExperts
from agentrt_kernels.routes import ExpertOrder


@dataclass(frozen=True, slots=True)
class Routes:
    """The experts of tokens.

    Attributes:
        chosen: `[T, A]` int64, dense; E stands for no expert.
        shares: `[T, A]`, floating, dense: weights in the sum; 0 where there is no expert.
        order: Choices by expert; None if the routing did not sort them.
    """

    chosen: Tensor
    shares: Tensor
    order: ExpertOrder | None = None


@dataclass(frozen=True, slots=True)
class ExpertRows:
    """Buffers for the rows of T tokens.

    Attributes:
        sorted: `[T * A, W]`, rows in the order of their experts.
        gate_up: `[T * A, 2 * I]`.
        inner: `[T * A, I]`.
    """

    sorted: Tensor
    gate_up: Tensor
    inner: Tensor


class RoutedExperts(Protocol):
    """All experts of a layer in their final format.

    Attributes:
        needs_rows: Whether it computes in buffers that it is given.
    """

    needs_rows: bool

    def apply(self, x: Tensor, routes: Routes, rows: ExpertRows | None, out: Tensor) -> None:
        """Fill `out` `[T, W]` with the weighted sums of what the experts make of `x` `[T, W]`."""
        ...


class GroupedLinear(Protocol):
    """The matrices of all experts."""

    def apply(self, x: Tensor, expert_start: Tensor, out: Tensor) -> Tensor:
        """`[T, W]`, sorted by expert, to `[T, N]`; see `Kernels.grouped_linear`."""
        ...


class GroupedExperts:
    """All experts in one kernel.

    Args:
        weight: `[E, N, W]`.
        bias: `[E, N]`, or None.
        kernels: Kernel set of the model.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, kernels: Kernels) -> None:
        self._weight = weight
        self._bias = bias
        self._kernels = kernels

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """See `MovableLinear.parts`."""
        return (self._weight,) if self._bias is None else (self._weight, self._bias)

    def over(self, parts: Sequence[Tensor]) -> GroupedExperts:
        """See `MovableLinear.over`."""
        weight, *bias = parts
        return GroupedExperts(weight, bias[0] if bias else None, self._kernels)

    def apply(self, x: Tensor, expert_start: Tensor, out: Tensor) -> Tensor:
        """See `GroupedLinear`."""
        self._kernels.grouped_linear(x, self._weight, expert_start, out)
        if self._bias is not None:
            rows = torch.arange(x.shape[0], device=x.device, dtype=expert_start.dtype)
            expert = torch.searchsorted(expert_start[1:], rows, right=True)
            out.add_(self._bias[expert.clamp_(max=self._bias.shape[0] - 1)])
        return out


class DenseExperts:
    """The experts one after the other, by torch's own product: for CPUs.

    Args:
        weight: `[E, N, W]`.
        bias: `[E, N]`, or None.

    Attributes:
        parts: See `MovableLinear.parts`.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.parts = (weight,) if bias is None else (weight, bias)

    def over(self, parts: Sequence[Tensor]) -> DenseExperts:
        """See `MovableLinear.over`."""
        weight, *bias = parts
        return DenseExperts(weight, bias[0] if bias else None)

    def apply(self, x: Tensor, expert_start: Tensor, out: Tensor) -> Tensor:
        """See `GroupedLinear`."""
        weight, *biases = self.parts
        for expert, (start, stop) in enumerate(pairwise(expert_start.tolist())):
            rows, matrix, made = x[start:stop], weight[expert].t(), out[start:stop]
            if start < stop and biases:
                torch.addmm(biases[0][expert], rows, matrix, out=made)
            elif start < stop:
                torch.mm(rows, matrix, out=made)
        return out


class SortedExperts:
    """Experts over a kernel set: rows are sorted by expert, so that no loop runs over tokens.

    Args:
        gate_up: Gate and up projections.
        down: Down projections.
        experts: E.
        activation: How gates open.
        kernels: Kernel set of the model.
    """

    needs_rows = True

    def __init__(
        self,
        gate_up: GroupedLinear,
        down: GroupedLinear,
        experts: int,
        activation: Activation,
        kernels: Kernels,
    ) -> None:
        self._gate_up, self._down = gate_up, down
        self._experts = experts
        self._activation, self._kernels = activation, kernels

    def apply(self, x: Tensor, routes: Routes, rows: ExpertRows | None, out: Tensor) -> None:
        """See `RoutedExperts`; rows without an expert come last, and count as zero."""
        assert rows is not None, "these experts compute in buffers"
        kernels, order = self._kernels, routes.order
        if order is None:
            order = kernels.sort_choices(routes.chosen, self._experts)
        taken = torch.index_select(x, 0, order.tokens, out=rows.sorted)
        self._gate_up.apply(taken, order.expert_start, rows.gate_up)
        kernels.gate_mul(rows.gate_up, rows.inner, self._activation)
        made = self._down.apply(rows.inner, order.expert_start, taken)
        kernels.sum_choices(made, order, routes.shares, out)


class NativeExperts:
    """Experts in one native call, which sorts and sums by itself.

    Attributes:
        packed: The experts.
    """

    needs_rows = False

    def __init__(self, packed: PackedExperts) -> None:
        self.packed = packed

    def apply(self, x: Tensor, routes: Routes, rows: ExpertRows | None, out: Tensor) -> None:
        """See `RoutedExperts`."""
        self.packed.apply(x, routes.chosen, routes.shares.float(), out)

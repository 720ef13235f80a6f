"""Gated MLPs of which each token takes a few: the ways to compute them, and what they are given.

Letters of the shapes: T tokens, A experts of a token, E experts, W hidden width, I inner width, N
outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from agentrt_kernels.contract import Activation, Kernels
from agentrt_kernels.cpu.experts import PackedExperts


@dataclass(frozen=True, slots=True)
class Routes:
    """The experts of tokens.

    Attributes:
        chosen: `[T, A]` int64, dense; E stands for no expert.
        shares: `[T, A]`, floating, dense: weights in the sum; 0 where there is no expert.
    """

    chosen: Tensor
    shares: Tensor


@dataclass(frozen=True, slots=True)
class ExpertRows:
    """Buffers for the rows of T tokens.

    Attributes:
        sorted: `[T * A, W]`, rows in the order of their experts.
        gate_up: `[T * A, 2 * I]`.
        inner: `[T * A, I]`.
        returned: `[T * A, W]`, in the order of the tokens again.
    """

    sorted: Tensor
    gate_up: Tensor
    inner: Tensor
    returned: Tensor


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

    def apply(self, x: Tensor, expert_start: Tensor, out: Tensor) -> Tensor:
        """See `GroupedLinear`."""
        self._kernels.grouped_linear(x, self._weight, expert_start, out)
        if self._bias is not None:
            rows = torch.arange(x.shape[0], device=x.device, dtype=expert_start.dtype)
            expert = torch.searchsorted(expert_start[1:], rows, right=True)
            out.add_(self._bias[expert.clamp_(max=self._bias.shape[0] - 1)])
        return out


class SortedExperts:
    """Experts over a kernel set: rows are sorted by expert, so that no loop runs over tokens.

    Args:
        gate_up: Gate and up projections.
        down: Down projections.
        experts: E.
        activation: How gates open.
        kernels: Kernel set of the model.
        device: Device of the matrices.
    """

    needs_rows = True

    def __init__(
        self,
        gate_up: GroupedLinear,
        down: GroupedLinear,
        experts: int,
        activation: Activation,
        kernels: Kernels,
        device: torch.device,
    ) -> None:
        self._gate_up, self._down = gate_up, down
        self._activation, self._kernels = activation, kernels
        self._bounds = torch.arange(experts + 1, device=device)

    def apply(self, x: Tensor, routes: Routes, rows: ExpertRows | None, out: Tensor) -> None:
        """See `RoutedExperts`; rows without an expert come last, and count as zero."""
        assert rows is not None, "these experts compute in buffers"
        each = routes.chosen.shape[1]
        expert_ids, order = routes.chosen.flatten().sort(stable=True)  # [T * A]
        expert_start = torch.searchsorted(expert_ids, self._bounds, out_int32=True)
        taken = torch.index_select(x, 0, order // each, out=rows.sorted)
        self._gate_up.apply(taken, expert_start, rows.gate_up)
        self._kernels.gate_mul(rows.gate_up, rows.inner, self._activation)
        made = self._down.apply(rows.inner, expert_start, taken)
        rows.returned.index_copy_(0, order, made)
        returned = rows.returned.view(x.shape[0], each, x.shape[1])
        out.copy_((returned * routes.shares.float()[:, :, None]).sum(1))


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

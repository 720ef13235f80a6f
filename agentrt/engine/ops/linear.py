"""Linear layers: the format of a matrix, and its product.

On a CPU the matrix is stored, once, in the order in which it is read: by the native kernels, or,
without a compiler, in bf16 by oneDNN. Either takes half the time of torch's product for up to
sixteen rows, and the same for 512. oneDNN's operations are private to torch, so they are tested
first, with plain products as the fallback. Quantised weights are laid out by the kernel set.

Letters of the shapes: T rows, W inputs, N outputs, E experts.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from agentrt.base.errors import EngineUnavailable
from agentrt.engine.ops.expert_offload import ExpertOffload
from agentrt.engine.ops.experts import (
    DenseExperts,
    GroupedExperts,
    GroupedLinear,
    NativeExperts,
    RoutedExperts,
    SortedExperts,
)
from agentrt_kernels.contract import Activation, CodeLinear, Kernels, MovableLinear
from agentrt_kernels.cpu.experts import ExpertMatrices
from agentrt_kernels.cpu.kernel_set import CpuKernels
from agentrt_kernels.cpu.linear import fits
from agentrt_kernels.looped_experts import LoopedExperts
from agentrt_kernels.quantised_weight import QuantisedWeight

WeightFormat = Literal["native", "packed", "plain"]


class Linear(Protocol):
    """A matrix in its final format."""

    def apply(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """`[T, W]` to `[T, N]`, which may be written to `out`."""


class DenseLinear:
    """torch's own product.

    Args:
        weight: `[N, W]`.
        bias: `[N]`, or None.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight = weight.t()
        self._bias = bias

    def apply(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """See `Linear`."""
        if self._bias is None:
            return torch.mm(x, self._weight, out=out)
        return torch.addmm(self._bias, x, self._weight, out=out)


class PackedLinear:
    """oneDNN's product with a weight in its own order; the original weight is not kept."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight = _onednn()._reorder_linear_weight(weight.contiguous())
        self._bias = bias
        self._multiply: Any = _onednn()._linear_pointwise.default

    def apply(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """See `Linear`; the result is always new."""
        product: Tensor = self._multiply(x, self._weight, self._bias, "none", [], "")
        return product


class LinearBackend:
    """Chooses the format of a model's matrices.

    Args:
        dtype: Type of the weights.
        device: Device of the weights.
        kernels: Kernel set of the model.
        offload: Bounds the memory of experts; None keeps all in it.

    Attributes:
        choice: "native", "packed" or "plain".
        reason: Why.
        quantised_bytes: Bytes of the matrices so far that stay quantised.
        dtype: See the arguments.
        offload: See the arguments.
    """

    def __init__(
        self,
        dtype: torch.dtype,
        device: torch.device,
        kernels: Kernels,
        offload: ExpertOffload | None = None,
    ) -> None:
        self._kernels = kernels
        self.offload = offload
        self.quantised_bytes = 0
        self.dtype = dtype
        self._device = device
        self._loops = device.type == "cpu" and kernels.name in ("torch", "cpu")
        self.choice: WeightFormat
        self.choice, self.reason = _choose_format(dtype, device, kernels)

    def linear(self, weight: Tensor | QuantisedWeight, bias: Tensor | None = None) -> Linear:
        """Linear layer of `weight` `[N, W]`, which stays quantised if it is, and `bias` `[N]`."""
        if not isinstance(weight, Tensor):
            made = self._packed_codes(weight, bias)
            self.quantised_bytes += made.resident_bytes
            return made
        if self.choice == "native" and isinstance(self._kernels, CpuKernels) and fits(weight):
            return self._kernels.pack(weight, bias)
        return (PackedLinear if self.choice == "packed" else DenseLinear)(weight, bias)

    def _packed_codes(self, weight: QuantisedWeight, bias: Tensor | None) -> CodeLinear:
        try:
            return self._kernels.pack_codes(weight, bias)
        except ValueError as error:
            raise self._refusal(f"{error}") from error

    def _refusal(self, fault: str) -> EngineUnavailable:
        return EngineUnavailable(
            f"{self._kernels.name} kernels do not multiply by these weights: {fault}",
            hint="Leave --activations if it is given, or serve the model elsewhere: --engine URL",
        )

    def experts(self, experts: Iterable[ExpertMatrices], activation: Activation) -> RoutedExperts:
        """The experts of a layer, whose matrices stay quantised if they are; each is drawn once."""
        kernels = self._kernels
        if isinstance(kernels, CpuKernels):
            first, experts = _with_first(experts)
            weights = (first.gate_up, first.down)
            if all(not isinstance(one, Tensor) or fits(one) for one in weights):
                if self.offload is not None:
                    mapped = self.offload.native(kernels, experts, activation)
                    self.quantised_bytes += mapped.quantised_bytes
                    return mapped
                packed = kernels.pack_experts(experts, activation)
                self.quantised_bytes += packed.quantised_bytes
                return NativeExperts(packed)
        if self.offload is not None:
            return self._offloaded(self.offload, list(experts), activation)
        if self._loops:
            return self._looped(experts, activation)
        drawn = list(experts)
        gate_up, down = self._grouped(drawn)
        return SortedExperts(gate_up, down, len(drawn), activation, kernels)

    def _offloaded(
        self, offload: ExpertOffload, experts: Sequence[ExpertMatrices], activation: Activation
    ) -> RoutedExperts:
        gate_up, down = self._grouped(experts)
        if not isinstance(gate_up, MovableLinear) or not isinstance(down, MovableLinear):
            raise self._refusal("codes of a layer's experts differ in form, so no slots hold them")
        return offload.on_device(self._kernels, (gate_up, down), activation, self._device)

    def _looped(self, experts: Iterable[ExpertMatrices], activation: Activation) -> RoutedExperts:
        pairs = [
            (self.linear(one.gate_up, one.gate_up_bias), self.linear(one.down, one.down_bias))
            for one in experts
        ]
        gate_up, down = (LoopedExperts(part) for part in zip(*pairs, strict=True))
        return SortedExperts(gate_up, down, len(pairs), activation, self._kernels)

    def _grouped(self, experts: Sequence[ExpertMatrices]) -> tuple[GroupedLinear, GroupedLinear]:
        gate_up = self._grouped_linear(
            [one.gate_up for one in experts], [one.gate_up_bias for one in experts]
        )
        down = self._grouped_linear(
            [one.down for one in experts], [one.down_bias for one in experts]
        )
        return gate_up, down

    def _grouped_linear(
        self, weights: Sequence[Tensor | QuantisedWeight], biases: Sequence[Tensor | None]
    ) -> GroupedLinear:
        plain = [one for one in weights if isinstance(one, Tensor)]
        codes = [one for one in weights if not isinstance(one, Tensor)]
        held = [one for one in biases if one is not None]
        stacked = torch.stack(held) if held else None
        if not codes and self._loops:
            return DenseExperts(torch.stack(plain), stacked)
        if not codes:
            return GroupedExperts(torch.stack(plain), stacked, self._kernels)
        if plain:
            raise self._refusal("some of a layer's experts are quantised and some are not")
        try:
            made = self._kernels.pack_expert_codes(codes, stacked)
        except ValueError as error:
            raise self._refusal(f"{error}") from error
        self.quantised_bytes += made.resident_bytes
        return made


def _with_first(
    experts: Iterable[ExpertMatrices],
) -> tuple[ExpertMatrices, Iterable[ExpertMatrices]]:
    """The first of them, and all of them, still drawn one at a time."""
    rest = iter(experts)
    first = next(rest)
    return first, chain((first,), rest)


def _choose_format(
    dtype: torch.dtype, device: torch.device, kernels: Kernels
) -> tuple[WeightFormat, str]:
    if isinstance(kernels, CpuKernels):
        return "native", "the native kernels read weights fastest in their own order"
    if device.type != "cpu":
        return "plain", f"products on {device.type} are as fast as they come"
    if dtype != torch.bfloat16:
        return "plain", f"weights in {str(dtype).removeprefix('torch.')} gain nothing by an order"
    fault = packing_fault()
    if fault:
        return "plain", fault
    return "packed", "oneDNN reads bf16 weights fastest in its own order"


@functools.cache
def packing_fault() -> str | None:
    """Why packing is not available here; None if a packed product equals a plain one."""
    try:
        if not _onednn()._is_mkldnn_bf16_supported():
            return "this processor has no bf16 products"
        source = torch.Generator().manual_seed(0)
        weight = torch.randn((48, 32), generator=source).bfloat16()
        bias = torch.randn(48, generator=source).bfloat16()
        x = torch.randn((3, 32), generator=source).bfloat16()
        with torch.inference_mode():
            packed = PackedLinear(weight, bias).apply(x)
            plain = DenseLinear(weight.float(), bias.float()).apply(x.float())
    except (AttributeError, RuntimeError, TypeError) as error:
        return f"this torch does not pack: {str(error).splitlines()[0]}"
    near = torch.allclose(packed.float(), plain, rtol=2e-2, atol=1e-1)
    return None if near else "packed products are wrong with this torch"


def _onednn() -> Any:
    return torch.ops.mkldnn

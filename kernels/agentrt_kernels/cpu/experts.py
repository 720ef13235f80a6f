"""All experts of a layer as one native call: rows in the order of tokens in, their sums out.

Letters of the shapes: T tokens, A experts of a token, E experts, W hidden width, I inner width.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from ctypes import addressof
from dataclasses import dataclass

from torch import Tensor

from agentrt_kernels.contract import Activation
from agentrt_kernels.cpu import library as c
from agentrt_kernels.cpu.linear import (
    KINDS,
    After,
    Allocate,
    Arena,
    NativeLinear,
    PackedLinear,
    pack,
    room,
)
from agentrt_kernels.cpu.operands import set_activation
from agentrt_kernels.cpu.quantised import QuantisedLinear, pack_codes
from agentrt_kernels.quantised_weight import QuantisedWeight


@dataclass(frozen=True, slots=True)
class ExpertMatrices:
    """A gated MLP before it is packed.

    Attributes:
        gate_up: `[2 * I, W]`, gates first; plain or quantised.
        gate_up_bias: `[2 * I]` of the rows' dtype, or None.
        down: `[W, I]`, plain or quantised.
        down_bias: `[W]`, or None.
    """

    gate_up: Tensor | QuantisedWeight
    gate_up_bias: Tensor | None
    down: Tensor | QuantisedWeight
    down_bias: Tensor | None


@dataclass(frozen=True, slots=True)
class PackedExpert:
    """A gated MLP that is packed.

    Attributes:
        gate_up: Gated, from W inputs to I outputs.
        down: From I inputs to W outputs.
    """

    gate_up: NativeLinear
    down: NativeLinear


class ExpertProducts:
    """The native call over experts that are described already.

    Args:
        library: The native code.
        gate_up: Gate and up projection of each, which has to outlive this object's use.
        down: Down projection of each, likewise.
        activation: How gates open.
    """

    def __init__(
        self,
        library: c.Native,
        gate_up: ctypes.Array[c.Linear],
        down: ctypes.Array[c.Linear],
        activation: Activation,
    ) -> None:
        self._run = library.experts
        self._linears = gate_up, down
        for linear in gate_up:
            set_activation(linear.activation, activation)
        call = self._call = c.ExpertsCall()
        call.gate_up, call.down = map(addressof, self._linears)
        call.experts = len(gate_up)
        call.hidden, call.inner = gate_up[0].inputs, gate_up[0].outputs
        self._at = addressof(call)

    def apply(self, x: Tensor, chosen: Tensor, shares: Tensor, out: Tensor) -> None:
        """Fill `out` with the weighted sums of what each row's experts make of it.

        Args:
            x: `[T, W]`, fp32 or bf16.
            chosen: `[T, A]` int64, dense; E stands for no expert.
            shares: `[T, A]` fp32, dense, weights in the sum.
            out: `[T, W]` of the dtype of `x`.
        """
        call = self._call
        call.x, call.x_stride = x.data_ptr(), x.stride(0)
        call.out, call.out_stride = out.data_ptr(), out.stride(0)
        call.chosen, call.shares = chosen.data_ptr(), shares.data_ptr()
        call.rows, call.choices = chosen.shape
        call.kind = KINDS[x.dtype]
        self._run(self._at)


class PackedExperts:
    """Gated MLPs of which each token takes a few.

    Args:
        library: The native code.
        experts: The MLPs, all of one shape and format; each is packed before the next is drawn,
            if it is not packed already.
        activation: How gates open.

    Attributes:
        quantised_bytes: Bytes of the matrices that stay quantised.
    """

    def __init__(
        self,
        library: c.Native,
        experts: Iterable[ExpertMatrices | PackedExpert],
        activation: Activation,
    ) -> None:
        allocate = Arena().take
        self._packed = [packed_expert(library, one, allocate) for one in experts]
        gate_up = [one.gate_up for one in self._packed]
        down = [one.down for one in self._packed]
        self.quantised_bytes = sum(
            one.resident_bytes for one in (*gate_up, *down) if isinstance(one, QuantisedLinear)
        )
        self._products = ExpertProducts(
            library, _described(gate_up, After.GATE), _described(down, After.STORE), activation
        )
        library.trim()

    def packed(self) -> Iterator[PackedExpert]:
        """The experts one by one, as they are kept."""
        yield from self._packed

    def apply(self, x: Tensor, chosen: Tensor, shares: Tensor, out: Tensor) -> None:
        """See `ExpertProducts.apply`."""
        self._products.apply(x, chosen, shares, out)


def packed_expert(
    library: c.Native, expert: ExpertMatrices | PackedExpert, allocate: Allocate = room
) -> PackedExpert:
    """An expert, packed if it is not yet.

    Args:
        library: The native code.
        expert: The expert.
        allocate: Gives the memory of packed weights.
    """
    if isinstance(expert, PackedExpert):
        return expert
    return PackedExpert(
        _packed(library, allocate, expert.gate_up, expert.gate_up_bias, gated=True),
        _packed(library, allocate, expert.down, expert.down_bias),
    )


def _packed(
    library: c.Native,
    allocate: Allocate,
    weight: Tensor | QuantisedWeight,
    bias: Tensor | None,
    *,
    gated: bool = False,
) -> PackedLinear | QuantisedLinear:
    bias = None if bias is None else bias.contiguous()
    if isinstance(weight, Tensor):
        return pack(library, weight, bias, gated=gated, allocate=allocate)
    return pack_codes(library, weight, bias, gated=gated, allocate=allocate)


def _described(made: Sequence[NativeLinear], after: After) -> ctypes.Array[c.Linear]:
    return (c.Linear * len(made))(*(one.described(after) for one in made))

"""Experts of a layer that can be moved: all of one lies in a block of memory, wherever that is."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from agentrt_kernels.contract import Activation
from agentrt_kernels.cpu import library as c
from agentrt_kernels.cpu.experts import (
    ExpertMatrices,
    ExpertProducts,
    PackedExpert,
    packed_expert,
)
from agentrt_kernels.cpu.linear import After, NativeLinear

_LINE = 64
_FIELDS = {
    "memory": "weight",
    "codes": "weight",
    **{name: name for name in ("scales", "zeros", "factors", "bias", "order", "table")},
}
"""Fields of `struct Linear` that point to the parts of a matrix."""

_Layout = tuple[tuple[str, int, int], ...]
"""Field, offset in the block and bytes of each part."""


class MovableExperts:
    """Gated MLPs of which each token takes a few, each wherever its memory is.

    Those that are packed already lie where they lie. Others can be used once they were placed.

    Args:
        library: The native code.
        experts: The MLPs, all of one shape and format; each is packed before the next is drawn.
        activation: How gates open.
        store: Takes the block of each that was not packed yet, uint8 `[block_bytes]`, in their
            order. The block is used again for the next.

    Attributes:
        count: E.
        block_bytes: Bytes of an expert in one block, a multiple of 64.
        is_quantised: Whether its matrices are.
        packed: Experts that were packed already: all or none.

    Raises:
        ValueError: The experts are not alike.
    """

    def __init__(
        self,
        library: c.Native,
        experts: Iterable[ExpertMatrices | PackedExpert],
        activation: Activation,
        store: Callable[[Tensor], None],
    ) -> None:
        described: list[tuple[c.Linear, c.Linear]] = []
        self.packed: list[PackedExpert] = []
        self._layouts: tuple[_Layout, _Layout] | None = None
        block = torch.empty(0, dtype=torch.uint8)
        for one in experts:
            packed = packed_expert(library, one)
            gate_up = _laid_out(packed.gate_up, 0)
            found = gate_up, _laid_out(packed.down, _end(gate_up))
            if self._layouts is None:
                self._layouts = found
                self.block_bytes = _end(found[1])
                self.is_quantised = packed.down.parts().bits > 0
                block = torch.zeros(self.block_bytes, dtype=torch.uint8)
            elif found != self._layouts:
                raise ValueError(f"expert {len(described)} has other matrices than those before it")
            described.append(_described(packed))
            if isinstance(one, PackedExpert):
                self.packed.append(one)
                continue
            self.copy(packed, block)
            store(block)
            for linear, layout in zip(described[-1], found, strict=True):
                _place(linear, layout, None)
        self.count = len(described)
        gate_up_linears, down_linears = zip(*described, strict=True)
        self._linears = _array(gate_up_linears), _array(down_linears)
        self._products = ExpertProducts(library, *self._linears, activation)
        library.trim()

    def copy(self, expert: PackedExpert, block: Tensor) -> None:
        """Copy a packed expert into a block, dense uint8 `[block_bytes]`."""
        assert self._layouts is not None
        for linear, layout in zip((expert.gate_up, expert.down), self._layouts, strict=True):
            tensors = linear.parts().tensors.values()
            for tensor, (_, at, size) in zip(tensors, layout, strict=True):
                block[at : at + size].copy_(tensor.contiguous().view(-1).view(torch.uint8))

    def place(self, number: int, address: int) -> None:
        """Use the block of an expert that begins at this address, a multiple of 64."""
        assert self._layouts is not None
        for linears, layout in zip(self._linears, self._layouts, strict=True):
            _place(linears[number], layout, address)

    def place_packed(self, number: int) -> None:
        """Use an expert where it lay when it was given packed."""
        assert self._layouts is not None
        both = zip(self._linears, _described(self.packed[number]), self._layouts, strict=True)
        for linears, own, layout in both:
            for field, _, _ in layout:
                setattr(linears[number], field, getattr(own, field))

    def apply(self, x: Tensor, chosen: Tensor, shares: Tensor, out: Tensor) -> None:
        """See `ExpertProducts.apply`; the chosen experts have been placed."""
        self._products.apply(x, chosen, shares, out)


def _described(expert: PackedExpert) -> tuple[c.Linear, c.Linear]:
    return expert.gate_up.described(After.GATE), expert.down.described(After.STORE)


def _laid_out(linear: NativeLinear, offset: int) -> _Layout:
    """Places of a matrix's parts one behind the other, each at the beginning of a line."""
    found: list[tuple[str, int, int]] = []
    for name, tensor in linear.parts().tensors.items():
        found.append((_FIELDS[name], offset, tensor.nbytes))
        offset += -(-tensor.nbytes // _LINE) * _LINE
    return tuple(found)


def _end(layout: _Layout) -> int:
    _, at, size = layout[-1]
    return -(-(at + size) // _LINE) * _LINE


def _place(linear: c.Linear, layout: _Layout, address: int | None) -> None:
    for field, offset, _ in layout:
        setattr(linear, field, None if address is None else address + offset)


def _array(linears: Sequence[c.Linear]) -> ctypes.Array[c.Linear]:
    return (c.Linear * len(linears))(*linears)

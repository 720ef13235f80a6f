"""Linears whose weights are packed once, to be read from beginning to end."""

from __future__ import annotations

import contextlib
import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable
from ctypes import addressof
from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from agentrt_kernels.cpu import library as c

KINDS = {torch.float32: 0, torch.bfloat16: 1}
"""Dtypes that the native code computes in, as it numbers them."""

PANEL, LANES = 32, 16
_ALIGNED = 64
_LARGE_BYTES = 4 << 20


class After(IntEnum):
    """Use of the products, as in `source/linear.h`."""

    STORE = 0
    ADD = 1
    GATE = 2


@dataclass(frozen=True, slots=True)
class LinearParts:
    """A packed matrix apart: what a file keeps of it.

    Attributes:
        bits: Bits of a code; 0 for a matrix in the dtype of the rows.
        group: Inputs that share a scale; 0 without codes.
        coding: Meaning of a code, as `Coding` numbers it.
        tensors: Tensors by the names of the attributes that hold them.
    """

    bits: int
    group: int
    coding: int
    tensors: dict[str, Tensor]


class NativeLinear(ABC):
    """`x @ weight.T + bias` by native code, whose layout of the weight a subclass describes.

    Args:
        library: The native code.
        inputs: K.
        outputs: N; half of it if the weight is gated.

    Attributes:
        inputs: K.
        outputs: N.
    """

    def __init__(self, library: c.Native, inputs: int, outputs: int) -> None:
        self.inputs, self.outputs = inputs, outputs
        self._run = library.linear
        self._call = call = c.LinearCall()
        call.linear = self.described(After.STORE)
        self._at = addressof(call)

    def apply(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """`x` `[rows, K]`, its rows dense, to `[rows, N]` in its dtype, or in fp32 if `out` is."""
        if out is None:
            out = x.new_empty((x.shape[0], self.outputs))
        call = self._call
        call.x, call.x_stride = x.data_ptr(), x.stride(0)
        call.out, call.out_stride = out.data_ptr(), out.stride(0)
        call.rows, call.kind, call.wide = x.shape[0], KINDS[x.dtype], out.dtype is torch.float32
        self._run(self._at)
        return out

    @abstractmethod
    def parts(self) -> LinearParts:
        """The matrix apart; `stored_linear.joined_linear` makes it again."""

    @abstractmethod
    def described(self, after: After, scale: float = 1.0) -> c.Linear:
        """The matrix as native code reads it; this object has to outlive the struct."""


class PackedLinear(NativeLinear):
    """A linear whose weight is packed in the dtype of the rows.

    Args:
        library: The native code.
        memory: `[panels, K, 32]` the packed weight.
        bias: `[N]` or None.
        inputs: K.
        outputs: N; half of it if the weight is gated.

    Attributes:
        memory: The packed weight.
        bias: `[N]` or None.
    """

    def __init__(
        self, library: c.Native, memory: Tensor, bias: Tensor | None, inputs: int, outputs: int
    ) -> None:
        self.memory, self.bias = memory, bias
        super().__init__(library, inputs, outputs)

    def parts(self) -> LinearParts:
        """See `NativeLinear`."""
        held = {"memory": self.memory} | ({} if self.bias is None else {"bias": self.bias})
        return LinearParts(0, 0, 0, held)

    def described(self, after: After, scale: float = 1.0) -> c.Linear:
        """See `NativeLinear`."""
        bias = None if self.bias is None else self.bias.data_ptr()
        return c.Linear(
            weight=self.memory.data_ptr(),
            bias=bias,
            inputs=self.inputs,
            outputs=self.outputs,
            after=after,
            scale=scale,
        )


def fits(weight: Tensor) -> bool:
    """Whether a matrix `[N, K]` can be packed."""
    return fits_width(weight.shape[1], weight.dtype)


def fits_width(inputs: int, dtype: torch.dtype) -> bool:
    """Whether matrices of so many inputs can be packed; bf16 is packed in pairs of inputs."""
    return dtype in KINDS and (dtype is torch.float32 or inputs % 2 == 0)


Allocate = Callable[[int, torch.dtype], Tensor]
"""Gives memory for so many values, whose first begins a line of the cache."""


def room(values: int, dtype: torch.dtype) -> Tensor:
    """Memory whose first value begins a line of the cache.

    Much of it comes fresh from the system: native code requests large pages before it is written.
    """
    size = values * dtype.itemsize
    if size >= _LARGE_BYTES:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        return torch.frombuffer(mmap.mmap(-1, size, flags), dtype=dtype)
    spare = _ALIGNED // dtype.itemsize
    flat = torch.empty(values + spare, dtype=dtype)
    skip = -flat.data_ptr() % _ALIGNED // dtype.itemsize
    return flat[skip : skip + values]


class Arena:
    """Memory for many small matrices, side by side in large pages; what is not used is not taken.

    Args:
        block_bytes: Bytes of a block, each of which comes fresh from the system.
    """

    def __init__(self, block_bytes: int = 64 << 20) -> None:
        self._block_bytes = block_bytes
        self._block = torch.empty(0, dtype=torch.uint8)
        self._used = 0

    def take(self, values: int, dtype: torch.dtype) -> Tensor:
        """See `Allocate`."""
        size = -(-values * dtype.itemsize // _ALIGNED) * _ALIGNED
        if size > self._block.shape[0] - self._used:
            self._block, self._used = fresh_memory(max(size, self._block_bytes)), 0
        first, self._used = self._used, self._used + size
        return self._block[first : first + values * dtype.itemsize].view(dtype)


def fresh_memory(size: int) -> Tensor:
    """Memory of so many bytes, zero and fresh from the system, in large pages if it has them."""
    block = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without large pages
            block.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(block, dtype=torch.uint8)


def pack(
    library: c.Native,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    gated: bool = False,
    allocate: Allocate = room,
) -> PackedLinear:
    """Pack `weight` `[N, K]`, fp32 or bf16.

    Args:
        library: The native code.
        weight: Rows are outputs; with `gated`, gates and then what they open for.
        bias: `[N]` of the same dtype, or None.
        gated: Whether the product is half as wide: values, each through a gate.
        allocate: Gives the memory of the packed weight.

    Raises:
        ValueError: The native code does not take this dtype, or an odd K of bf16.
    """
    rows, inputs = weight.shape
    if not fits(weight):
        raise ValueError(f"cannot pack a weight of {weight.dtype} with {inputs} inputs")
    outputs = rows // 2 if gated else rows
    panels = -(-outputs // (LANES if gated else PANEL))
    memory = allocate(panels * inputs * PANEL, weight.dtype).view(panels, inputs, PANEL)
    weight = weight.contiguous()
    call = c.PackCall(
        weight=weight.data_ptr(),
        packed=memory.data_ptr(),
        stride=weight.stride(0),
        inputs=inputs,
        outputs=outputs,
        kind=KINDS[weight.dtype],
        gated=gated,
    )
    library.pack(addressof(call))
    return PackedLinear(library, memory, bias, inputs, outputs)

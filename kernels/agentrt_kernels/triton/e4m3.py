"""FP8 as bits: four of exponent and three of mantissa, in bytes that any device can load and store.

The compiler knows the type from compute capability 8.9 on. Bytes are the same everywhere, so that
memory holds them, and only what is computed depends on the device.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from agentrt_kernels.triton.dependent_launch import capability

_FIRST_CAPABILITY = 89


def is_native(device: torch.device) -> bool:
    """Whether the device converts from FP8 itself."""
    return capability(device) >= _FIRST_CAPABILITY


@triton.jit
def nearest_e4m3(value):
    """The nearest value of FP8 to one of at most 448, ties to even, in fp32.

    A cast behind it is exact by that: the interpreter's loses what rounding carries.
    """
    bits = value.to(tl.int32, bitcast=True)
    normal = (bits + 0x7FFFF + ((bits >> 20) & 1)) & 0x7FF00000
    # Sums with this have steps of 2^-9, those of the smallest values.
    magic = 24576.0
    tiny = ((tl.abs(value) + magic) - magic).to(tl.int32, bitcast=True)
    size = tl.where(tl.abs(value) < 0.015625, tiny, normal)
    return (size | (bits & -0x80000000)).to(tl.float32, bitcast=True)


@triton.jit
def e4m3_bits(value):
    """The byte, as int8, of a value in fp32 that is one of FP8."""
    bits = value.to(tl.int32, bitcast=True)
    size = bits & 0x7FFFFFFF
    normal = (size >> 20) - 960  # the exponent's bias is 7 in place of 127
    tiny = (size.to(tl.float32, bitcast=True) * 512.0).to(tl.int32)
    size = tl.where(size < 0x3C800000, tiny, normal)  # 2^-6, the smallest that is normal
    return (((bits >> 24) & 0x80) | size).to(tl.int8)


@triton.jit
def e4m3_values(codes, kind: tl.constexpr, NATIVE: tl.constexpr):
    """Values of bytes, all of which are numbers, in a type of 16 bits or more: each is exact."""
    if NATIVE:
        values = codes.to(tl.float8e4nv, bitcast=True)
    else:
        # In their place in fp16, whose exponent has a bias of 15 in place of 7.
        bits = (codes.to(tl.int16) << 7) & -0x4080
        values = bits.to(tl.float16, bitcast=True) * 256.0
    return values.to(kind)

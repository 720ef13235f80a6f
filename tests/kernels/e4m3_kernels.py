"""Kernels that read and write bytes of FP8, one program for all of them."""

import triton
import triton.language as tl

from agentrt_kernels.triton.e4m3 import e4m3_bits, e4m3_values, nearest_e4m3


@triton.jit
def read(codes, out, NATIVE: tl.constexpr, COUNT: tl.constexpr):
    at = tl.arange(0, 256)
    code = tl.load(codes + at, mask=at < COUNT, other=0)
    tl.store(out + at, e4m3_values(code, tl.float32, NATIVE), mask=at < COUNT)


@triton.jit
def write(values, out, COUNT: tl.constexpr):
    at = tl.arange(0, 1024)
    value = tl.load(values + at, mask=at < COUNT, other=0.0)
    tl.store(out + at, e4m3_bits(nearest_e4m3(value)), mask=at < COUNT)

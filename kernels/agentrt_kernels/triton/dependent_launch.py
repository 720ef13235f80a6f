"""Launches that overlap: a kernel is set up while the one before it on its stream still runs.

CUDA's programmatic dependent launch, from compute capability 9.0 on. A step is hundreds of short
kernels in a row, and between any two that are launched plainly a device stands idle for the time
that it takes to drain the one and to fill itself with the other.

Each kernel waits before it touches memory, in every program: a kernel that ended without waiting
would let the next one run beside the one before.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

_FIRST_CAPABILITY = 90


@cache
def capability(device: torch.device) -> int:
    """`90` for compute capability 9.0; 0 without a device to compile for."""
    if device.type != "cuda":
        return 0
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


@cache
def overlapped(device: torch.device) -> dict[str, Any]:
    """Options of a launch whose kernel begins with `wait_for_inputs`."""
    if capability(device) < _FIRST_CAPABILITY:
        return {"OVERLAPPED": False}
    return {"OVERLAPPED": True, "launch_pdl": True}


@triton.jit
def wait_for_inputs(OVERLAPPED: tl.constexpr):
    """Let the next kernel be set up, and wait until the one before has written all it writes."""
    if OVERLAPPED:
        gdc_launch_dependents()
        gdc_wait()

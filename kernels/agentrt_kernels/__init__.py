"""Kernels of the fast path: one contract, several sets. Never imports agentrt.

Importing this builds nothing and imports no torch; `load` imports the set that it returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentrt_kernels.contract import Kernels

__all__ = ["NAMES", "load"]

NAMES = ("reference", "triton", "cpu")
"""Names that `load` accepts."""


def load(name: str) -> Kernels:
    """A set of kernels.

    Args:
        name: One of `NAMES`: `reference` is plain torch and runs anywhere; `triton` is for CUDA,
            and runs on the CPU only under Triton's interpreter; `cpu` is C++, compiled here.

    Raises:
        KernelsUnavailable: This machine cannot run the set; the message says why.
        ValueError: There is no such set.
    """
    if name == "reference":
        from agentrt_kernels.reference import Reference

        return Reference()
    if name == "triton":
        return _triton()
    if name == "cpu":
        from agentrt_kernels.cpu.kernel_set import CpuKernels

        return CpuKernels()
    raise ValueError(f"no kernel set is named {name!r}; there are {', '.join(NAMES)}")


def _triton() -> Kernels:
    from agentrt_kernels.contract import KernelsUnavailable

    try:
        from agentrt_kernels.triton.set import TritonKernels, runs_here
    except ImportError as error:
        raise KernelsUnavailable(f"triton cannot be imported: {error}") from error
    if not runs_here():
        raise KernelsUnavailable("triton needs a CUDA device, and torch sees none")
    return TritonKernels()

"""Choice of the kernel set on which a model runs."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import torch

from agentrt.base.config import Device, KernelChoice
from agentrt.base.errors import EngineUnavailable
from agentrt.engine.ops.cpu_threads import Wait
from agentrt.engine.ops.torch_kernels import TorchKernels
from agentrt_kernels import load
from agentrt_kernels.contract import Kernels, KernelsUnavailable
from agentrt_kernels.cpu.kernel_set import CpuKernels

_log = logging.getLogger(__name__)
_BEST: dict[Device, KernelChoice] = {"cuda": "triton", "cpu": "cpu"}
_SPIN_COUNTS: dict[Wait, int] = {"passive": 1_000, "active": 40_000}
"""Times that a native thread polls before it sleeps: about ten microseconds, and half a
millisecond, which is as long as the engine needs between two steps.
"""


@dataclass(frozen=True, slots=True)
class ChosenKernels:
    """A kernel set, and why it was chosen.

    Attributes:
        kernels: The kernel set.
        reason: Why, for display.
    """

    kernels: Kernels
    reason: str


def choose_kernels(choice: KernelChoice, device: Device, dtype: torch.dtype) -> ChosenKernels:
    """Choose the kernel set.

    Args:
        choice: Choice of the config.
        device: Device of the model.
        dtype: Type in which it computes.

    Raises:
        EngineUnavailable: The configured set cannot run here.
    """
    if choice == "torch":
        return ChosenKernels(TorchKernels(), "asked for")
    if choice != "auto":
        try:
            return ChosenKernels(_load(choice, device, dtype), "asked for")
        except KernelsUnavailable as error:
            raise EngineUnavailable(
                f"kernels={choice} cannot run here: {error}", hint="Use kernels=auto"
            ) from error
    best = _BEST[device]
    try:
        return ChosenKernels(_load(best, device, dtype), f"the best on {device}")
    except KernelsUnavailable as error:
        reason = f"{best} kernels cannot run here: {error}"
        _log.warning("%s; torch's own operations take their place", reason)
        return ChosenKernels(TorchKernels(), reason)


def wait_policies(kernels: Kernels) -> tuple[Wait, ...]:
    """Wait policies that can be set at run time; those of torch's own threads cannot."""
    return ("passive", "active") if isinstance(kernels, CpuKernels) else ("passive",)


def use_threads(kernels: Kernels, threads: int, wait: Wait = "passive") -> None:
    """Compute with this many threads from now on, in torch and in the kernel set."""
    torch.set_num_threads(threads)
    if isinstance(kernels, CpuKernels):
        kernels.use_threads(threads, spins=_SPIN_COUNTS[wait])


def _load(name: KernelChoice, device: Device, dtype: torch.dtype) -> Kernels:
    if name == "cpu" and device != "cpu":
        raise KernelsUnavailable(f"they compute on a CPU, not on {device}")
    if name == "cpu" and dtype not in (torch.float32, torch.bfloat16):
        raise KernelsUnavailable(f"they compute in float32 and bfloat16, not in {dtype}")
    return load(name)

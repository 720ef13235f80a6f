"""Which set of kernels a model runs on, and why."""

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
_SPINS: dict[Wait, int] = {"passive": 1_000, "active": 40_000}
"""How often a native thread looks before it sleeps: about ten microseconds, and half a
millisecond, which is as long as the engine needs between two steps."""


@dataclass(frozen=True, slots=True)
class ChosenKernels:
    """A set, and why it is this one.

    Attributes:
        kernels: The set.
        reason: For people.
        fell_back: It is not the one that is best on this device, and nobody asked for it.
    """

    kernels: Kernels
    reason: str
    fell_back: bool = False


def choose_kernels(asked: KernelChoice, device: Device, dtype: torch.dtype) -> ChosenKernels:
    """The set to run on.

    Args:
        asked: What the configuration asks for.
        device: Where the model is.
        dtype: What it computes in.

    Raises:
        EngineUnavailable: The set that was asked for cannot run here.
    """
    if asked == "torch":
        return ChosenKernels(TorchKernels(), "asked for")
    if asked != "auto":
        try:
            return ChosenKernels(_load(asked, device, dtype), "asked for")
        except KernelsUnavailable as error:
            raise EngineUnavailable(
                f"kernels={asked} cannot run here: {error}", hint="Use kernels=auto"
            ) from error
    best = _BEST[device]
    try:
        return ChosenKernels(_load(best, device, dtype), f"the best on {device}")
    except KernelsUnavailable as error:
        reason = f"{best} kernels cannot run here: {error}"
        _log.warning("%s; torch's own operations take their place", reason)
        return ChosenKernels(TorchKernels(), reason, fell_back=True)


def waits_of(kernels: Kernels) -> tuple[Wait, ...]:
    """Ways to wait that can be set while it runs: torch's own threads wait as they were told."""
    return ("passive", "active") if isinstance(kernels, CpuKernels) else ("passive",)


def use_threads(kernels: Kernels, threads: int, wait: Wait = "passive") -> None:
    """Compute with so many threads from now on, in torch and in the set."""
    torch.set_num_threads(threads)
    if isinstance(kernels, CpuKernels):
        kernels.use_threads(threads, spins=_SPINS[wait])


def _load(name: KernelChoice, device: Device, dtype: torch.dtype) -> Kernels:
    if name == "cpu" and device != "cpu":
        raise KernelsUnavailable(f"they compute on a CPU, not on {device}")
    if name == "cpu" and dtype not in (torch.float32, torch.bfloat16):
        raise KernelsUnavailable(f"they compute in float32 and bfloat16, not in {dtype}")
    return load(name)

"""What this machine can do at most: how fast it reads memory and multiplies matrices.

Measured with the engine's own threads and device, in its own process, so that a rate that the
engine achieves can be held against it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

_CPU_READ_BYTES = 1 << 29
_CUDA_READ_BYTES = 8 << 30
_CPU_EDGE = 1024
_CUDA_EDGE = 8192
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Rates of a device.

    Attributes:
        read_bytes_s: Streaming once over a buffer larger than all caches.
        flops_s: Of a large matrix product in the dtype asked for.
        threads: CPU threads that it took.
    """

    read_bytes_s: float
    flops_s: float
    threads: int


def measured(device: str, dtype: str) -> Ceilings:
    """The best of a few rounds each, as what disturbs a round only ever slows it."""
    place = torch.device(device)
    return Ceilings(
        read_bytes_s=_read_bytes_s(place),
        flops_s=_flops_s(place, getattr(torch, dtype)),
        threads=torch.get_num_threads(),
    )


def _read_bytes_s(device: torch.device) -> float:
    size = _CUDA_READ_BYTES if device.type == "cuda" else _CPU_READ_BYTES
    values = torch.ones(size // 4, device=device)
    return size / _best_s(device, values.sum)


def _flops_s(device: torch.device, dtype: torch.dtype) -> float:
    edge = _CUDA_EDGE if device.type == "cuda" else _CPU_EDGE
    left, right = (torch.randn(edge, edge, device=device).to(dtype) for _ in range(2))
    return 2 * edge**3 / _best_s(device, lambda: left @ right)


def _best_s(device: torch.device, work: Callable[[], Tensor]) -> float:
    best_s = float("inf")
    with torch.inference_mode():
        for _ in range(1 + _ROUNDS):  # the first warms up, and is slower
            _wait(device)
            began_s = time.perf_counter()
            work()
            _wait(device)
            best_s = min(best_s, time.perf_counter() - began_s)
    return best_s


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)

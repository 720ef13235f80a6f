"""The roofline of this machine: how fast it reads memory and multiplies matrices.

A rate that the engine achieves is held against it, so it is measured with the engine's own threads
and device. `python -P -m agentrt.engine.ops.roofline DEVICE DTYPE` prints it as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

_CPU_READ_BYTES = 1 << 29
_CUDA_READ_BYTES = 8 << 30
_CPU_EDGE = 1024
_CUDA_EDGE = 8192
_ROUNDS = 5


def roofline(device: str, dtype: str) -> dict[str, float]:
    """Measure the roofline in this process.

    Args:
        device: `cpu` or `cuda`.
        dtype: Name of the dtype of the matrix product.

    Returns:
        `read_bytes_s`, bytes a second read once from a buffer larger than all caches; `flops_s`,
        operations a second of a large matrix product; `threads`, CPU threads that computed.
    """
    place = torch.device(device)
    return {
        "read_bytes_s": _read_bytes_s(place),
        "flops_s": _flops_s(place, getattr(torch, dtype)),
        "threads": torch.get_num_threads(),
    }


def _read_bytes_s(device: torch.device) -> float:
    size = _CUDA_READ_BYTES if device.type == "cuda" else _CPU_READ_BYTES
    values = torch.ones(size // 4, device=device)
    return size / _best_s(device, values.sum)


def _flops_s(device: torch.device, dtype: torch.dtype) -> float:
    edge = _CUDA_EDGE if device.type == "cuda" else _CPU_EDGE
    left, right = (torch.randn(edge, edge, device=device).to(dtype) for _ in range(2))
    return 2 * edge**3 / _best_s(device, lambda: left @ right)


def _best_s(device: torch.device, work: Callable[[], Tensor]) -> float:
    """Least seconds of a few rounds: a disturbance only ever slows a round."""
    best_s = float("inf")
    with torch.inference_mode():
        for _ in range(1 + _ROUNDS):  # the first round warms up, and is slower
            _wait(device)
            began_s = time.perf_counter()
            work()
            _wait(device)
            best_s = min(best_s, time.perf_counter() - began_s)
    return best_s


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(roofline(*sys.argv[1:3])))

"""The roofline of this machine: how fast it reads memory and multiplies matrices.

A rate that the engine achieves is held against it, so it is measured with the engine's own threads
and device. `python -P -m agentrt.engine.ops.roofline DEVICE DTYPE` prints it as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict

import torch
from torch import Tensor

from agentrt.base.errors import EngineUnavailable
from agentrt.base.record import record

_CPU_READ_BYTES = 1 << 29
_CUDA_READ_BYTES = 8 << 30
_CPU_EDGE = 1024
_CUDA_EDGE = 8192
_ROUNDS = 5


@record
class Roofline:
    """Highest rates of a device.

    Attributes:
        read_bytes_s: Bytes a second, read once from a buffer larger than all caches.
        flops_s: Operations a second of a large matrix product in one dtype.
        threads: CPU threads that computed.
    """

    read_bytes_s: float
    flops_s: float
    threads: int


def roofline(device: str, dtype: str) -> Roofline:
    """Measure the roofline in this process.

    Args:
        device: `cpu` or `cuda`.
        dtype: Name of the dtype of the matrix product.
    """
    torch_device = torch.device(device)
    return Roofline(
        read_bytes_s=_read_bytes_s(torch_device),
        flops_s=_flops_s(torch_device, getattr(torch, dtype)),
        threads=torch.get_num_threads(),
    )


def roofline_in_process(device: str, dtype: str) -> Roofline:
    """Measure the roofline in a process of its own, where nothing else computes.

    Raises:
        EngineUnavailable: The process failed.
    """
    command = [sys.executable, "-P", "-m", "agentrt.engine.ops.roofline", device, dtype]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise EngineUnavailable(
            f"the rates of this machine could not be measured: {last}",
            hint="See that torch computes on this device in this dtype: agentrt doctor",
        )
    return Roofline(**json.loads(done.stdout))


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
    sys.stdout.write(json.dumps(asdict(roofline(*sys.argv[1:3]))))

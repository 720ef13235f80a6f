"""The roofline, measured in a process of its own, where nothing else computes."""

from __future__ import annotations

import json
import subprocess
import sys

from agentrt.base.errors import EngineUnavailable
from agentrt.base.record import record


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


def measured_roofline(device: str, dtype: str) -> Roofline:
    """Measure the roofline.

    Args:
        device: `cpu` or `cuda`.
        dtype: Name of the dtype of the matrix product.

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

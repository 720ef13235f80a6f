"""Hardware that torch finds on this machine, for display; nothing is loaded onto it."""

from __future__ import annotations

from typing import Any

import torch

from agentrt.base.config import EngineConfig
from agentrt.engine.ops.cpu_threads import stored_choice
from agentrt.engine.process.child import environment


def gpu_info() -> dict[str, Any]:
    """The GPUs, or why there is none."""
    if not torch.cuda.is_available():
        built = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "a CPU build"
        return {"count": 0, "reason": f"torch {torch.__version__} ({built}) sees no CUDA device"}
    devices = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        devices.append(
            {
                "name": properties.name,
                "memory_bytes": properties.total_memory,
                "capability": f"{properties.major}.{properties.minor}",
                "multiprocessors": properties.multi_processor_count,
            }
        )
    return {"count": len(devices), "cuda": torch.version.cuda, "devices": devices}


def thread_info(
    config: EngineConfig, inherited: dict[str, str], computed_by: str
) -> dict[str, str]:
    """Number of compute threads and why, and the environment of the engine's process.

    Args:
        config: Config of the engine.
        inherited: Environment of its parent.
        computed_by: Value of the model's report.
    """
    names = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "KMP_BLOCKTIME", "GOMP_SPINCOUNT")
    child_environment = environment(config, inherited)
    info = {name: child_environment[name] for name in names if name in child_environment}
    choice = stored_choice(config, computed_by)
    if config.threads or choice is None:
        return info
    return {"computing": f"{choice.threads} {choice.wait}", "measured": choice.reason, **info}

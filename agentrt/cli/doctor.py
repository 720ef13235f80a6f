"""`agentrt doctor`: what is installed, what a model would run on and why, and whether it starts."""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import anyio

from agentrt import embedded
from agentrt.base.clock import MonotonicClock
from agentrt.base.config import EngineConfig
from agentrt.base.cpu_cores import cores
from agentrt.base.errors import AgentrtError
from agentrt.engine.ops.cpu_threads import forget_choice

PACKAGES = (
    "agentrt",
    "torch",
    "transformers",
    "triton",
    "tokenizers",
    "llguidance",
    "outlines-core",
    "pydantic",
)
_NO_COMPILER = (
    "install a C++ compiler (g++ or clang++): the native kernels are compiled once, at the next "
    "start of the engine"
)


def examine(model: str, *, as_json: bool) -> int:
    """Says it on standard output; the exit code is that of the error the engine started with."""
    found, code = anyio.run(examined, Path(model) if model else embedded.path())
    if as_json:
        text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    else:
        text = "\n".join(lines_of(found))
    sys.stdout.write(text + "\n")
    return code


async def examined(model: Path) -> tuple[dict[str, Any], int]:
    """Facts by name, and the exit code."""
    config = EngineConfig(model_path=model)
    found: dict[str, Any] = {
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        **{name: installed(name) for name in PACKAGES},
        "cpus": cores(),
        "model": str(model),
    }
    forget_choice(config)  # of threads: another load may run beside the engine now
    started, code = await start(config)
    return found | started | computing(config), code


async def start(config: EngineConfig) -> tuple[dict[str, Any], int]:
    """Starts the engine once, and says how that went."""
    from agentrt.app import open_runtime

    clock = MonotonicClock()
    begun_s = clock.now_s()
    try:
        async with open_runtime(engine=config):
            return {"engine": f"starts in {clock.now_s() - begun_s:.1f} s"}, 0
    except AgentrtError as error:
        return {"engine": f"does not start: {error.message}", "fix": error.hint}, error.exit_code


def computing(config: EngineConfig) -> dict[str, Any]:
    """Device and kernels of the model with the reasons, threads, and what else is installed.

    Told after the engine has started, as its first start compiles kernels and checks the model.
    """
    import dataclasses

    from agentrt.engine.models.report import model_report
    from agentrt.engine.process.hardware import gpu_info, thread_info

    report = model_report(config)
    found: dict[str, Any] = {
        "report": dataclasses.asdict(report),
        "threads": thread_info(config, dict(os.environ), report.computed_by),
        "gpu": gpu_info(),
    }
    if config.device == "cpu" and report.kernels == "torch":
        found["advice"] = _NO_COMPILER
    return found


def lines_of(found: dict[str, Any]) -> list[str]:
    """The facts for people, a line each."""
    told = {name: value for name, value in found.items() if not isinstance(value, dict)}
    report, gpu = found["report"], found["gpu"]
    told["path"] = f"{report['path']}: {report['path_reason']}"
    if report["kernels"]:
        told["kernels"] = f"{report['kernels']}: {report['kernels_reason']}"
        told["matrices"] = f"{report['linear']} in {report['dtype']}: {report['linear_reason']}"
        told["self-check"] = report["self_check"]
    told["threads"] = ", ".join(f"{name}={value}" for name, value in found["threads"].items())
    told["gpu"] = gpu.get("reason") or ", ".join(
        f"{one['name']}, {one['memory_bytes'] / 1e9:.0f} GB, capability {one['capability']}"
        for one in gpu["devices"]
    )
    if "advice" in told:
        told["advice"] = told.pop("advice")
    return [f"{name:<14} {value}" for name, value in told.items()]


def installed(name: str) -> str:
    """The version of a package."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"

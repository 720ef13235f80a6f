"""`agentrt doctor`: what is installed, what it would run on, and whether the engine starts."""

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
from agentrt.clock import MonotonicClock
from agentrt.config import EngineConfig
from agentrt.errors import AgentrtError

PACKAGES = (
    "agentrt",
    "torch",
    "transformers",
    "tokenizers",
    "llguidance",
    "outlines-core",
    "pydantic",
)


def examine(model: str, *, as_json: bool) -> int:
    """Says it on standard output; the exit code is that of the error the engine started with."""
    found, code = anyio.run(examined, Path(model) if model else embedded.path())
    if as_json:
        text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    else:
        text = "\n".join(f"{key:<14} {value}" for key, value in found.items())
    sys.stdout.write(text + "\n")
    return code


async def examined(model: Path) -> tuple[dict[str, Any], int]:
    """Facts by name, and the exit code."""
    found: dict[str, Any] = {
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        **{name: installed(name) for name in PACKAGES},
        "cpus": len(os.sched_getaffinity(0)),
        "model": str(model),
    }
    started, code = await start(EngineConfig(model_path=model))
    return found | started, code


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


def installed(name: str) -> str:
    """The version of a package."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"

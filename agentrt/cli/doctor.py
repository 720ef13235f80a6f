"""`agentrt doctor`: installed packages, the device and kernels for a model, and a trial start."""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import anyio

from agentrt.base.clock import MonotonicClock
from agentrt.base.config import EngineConfig
from agentrt.base.cpu_cores import cores
from agentrt.base.engine_extra import missing_packages
from agentrt.base.engine_selection import with_drafts
from agentrt.base.engines.engine_file import EngineFile, engine_file
from agentrt.base.errors import AgentrtError, NotInstalled, UsageError
from agentrt.base.expert_memory import with_expert_memory
from agentrt.base.format_choice import with_formats
from agentrt.base.text_columns import wrapped
from agentrt.cli.embedded_engine import embedded_engine
from agentrt.cli.progress_display import waiting
from agentrt.cli.standard_streams import terminal_width

PACKAGES = (
    "agentrt",
    "torch",
    "transformers",
    "triton",
    "tokenizers",
    "llguidance",
    "outlines-core",
    "pydantic",
    "mcp",
)
_NO_COMPILER = (
    "install a C++ compiler (g++ or clang++): the native kernels are compiled once, at the next "
    "start of the engine; or ship them in the image (agentrt kernels build --help)"
)


def print_report(
    model: str,
    weights: str = "",
    activations: str = "",
    kv_cache_dtype: str = "",
    expert_memory: str = "",
    *,
    draft_model: Path | None = None,
    as_json: bool,
) -> int:
    """Print the report; the exit code is that of the error at the engine's start.

    The engine is that of `agentrt.toml`, where a flag goes before the file. A file that cannot be
    read is such an error: what is installed is reported all the same.
    """
    try:
        file = engine_file(os.environ)
    except UsageError:
        file = EngineFile()  # the start says why
    config = embedded_engine(file, "cpu", model)
    if draft_model is not None:
        config = with_drafts(config, "auto", draft_model)
    config = with_formats(config, weights, activations, kv_cache_dtype)
    config = with_expert_memory(config, expert_memory)
    with waiting("starting the engine", quiet=as_json):
        found, code = anyio.run(examine, config)
    if as_json:
        text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    else:
        width = terminal_width()
        text = "\n".join(
            part for line in lines_of(found) for part in wrapped(line, width, indent=15)
        )
    sys.stdout.write(text + "\n")
    return code


async def examine(config: EngineConfig) -> tuple[dict[str, Any], int]:
    """The report by name, and the exit code."""
    found: dict[str, Any] = {
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        **{name: installed(name) for name in PACKAGES},
        "cpus": cores(),
        "model": str(config.model_path),
    }
    if missing := missing_packages():
        return found | light_install(missing), NotInstalled.exit_code
    from agentrt.engine.ops.cpu_threads import forget_choice

    forget_choice(config)  # of threads: the load of the machine may be different now
    started, code = await start(config)
    return found | started | compute_report(config), code


def light_install(missing: tuple[str, ...]) -> dict[str, str]:
    """Uses of an install without the embedded engine, and the command that adds the engine."""
    return {
        "install": "light: remote engines (agentrt doctor --engine NAME|URL), tests of programs",
        "engine": f"not installed: {', '.join(missing)}",
        "fix": NotInstalled.default_hint,
    }


async def start(config: EngineConfig) -> tuple[dict[str, Any], int]:
    """Start the engine once and report the result."""
    from agentrt.app import open_runtime

    clock = MonotonicClock()
    begun_s = clock.now_s()
    try:
        async with open_runtime(engine=config, models={}):
            return {"engine": f"starts in {clock.now_s() - begun_s:.1f} s"}, 0
    except AgentrtError as error:
        return {"engine": f"does not start: {error.message}", "fix": error.hint}, error.exit_code


def compute_report(config: EngineConfig) -> dict[str, Any]:
    """Device and kernels of the model with the reasons, threads, and GPUs.

    Called after the engine has started, as its first start compiles kernels and checks the model.
    """
    import dataclasses

    from agentrt.engine.models.eagle3.head_report import draft_report
    from agentrt.engine.models.report import model_report
    from agentrt.engine.process.hardware import gpu_info, thread_info

    report = model_report(config)
    found: dict[str, Any] = {
        "report": dataclasses.asdict(report),
        "threads": thread_info(config, dict(os.environ), report.computed_by),
        "gpu": gpu_info(),
    }
    if config.draft_model is not None:
        found["draft model"] = draft_report(config)
    if config.device == "cpu" and report.kernels == "torch":
        found["advice"] = _NO_COMPILER
    return found


def lines_of(found: dict[str, Any]) -> list[str]:
    """The report for people, one line an entry."""
    shown = {name: value for name, value in found.items() if not isinstance(value, dict)}
    if "report" in found:
        shown |= lines_of_model(found["report"], found["threads"], found["gpu"])
    if "advice" in shown:
        shown["advice"] = shown.pop("advice")
    return [f"{name:<14} {value}" for name, value in shown.items()]


def lines_of_model(
    report: dict[str, Any], threads: dict[str, str], gpu: dict[str, Any]
) -> dict[str, str]:
    """Path, kernels, threads and GPUs of a model, by name."""
    shown = {"path": f"{report['path']}: {report['path_reason']}"}
    if report["compiled"]:
        shown["compiled"] = report["compiled"]
    if report["kernels"]:
        shown["kernels"] = f"{report['kernels']}: {report['kernels_reason']}"
        shown["matrices"] = f"{report['linear']} in {report['dtype']}: {report['linear_reason']}"
        if report["weight_bytes"]:
            shown["weights"] = _weights_line(report)
        shown["kv cache"] = _kv_cache_line(report)
        shown["self-check"] = report["self_check"]
    shown["threads"] = ", ".join(f"{name}={value}" for name, value in threads.items())
    shown["gpu"] = gpu.get("reason") or ", ".join(
        f"{one['name']}, {one['memory_bytes'] / 1e9:.0f} GB, capability {one['capability']}"
        for one in gpu["devices"]
    )
    return shown


def _weights_line(report: dict[str, Any]) -> str:
    """The memory of all weights, and the bound for experts among them."""
    total, experts, bound = (
        report[name] / 1e6 for name in ("weight_bytes", "expert_bytes", "expert_memory_bytes")
    )
    if not bound:
        return f"{total:,.0f} MB in memory"
    where = "host memory" if report["device"] == "cuda" else "a mapped file"
    if not experts:
        return f"{total:,.0f} MB, of experts at most {bound:,.0f} MB in memory, all in {where}"
    held = total - experts + min(experts, bound)
    kept = f"at most {bound:,.0f} of {experts:,.0f} MB of experts"
    return f"{held:,.0f} MB in memory, with {kept}; all experts in {where}"


def _kv_cache_line(report: dict[str, Any]) -> str:
    kept, size = report["kv_cache"], report["kv_token_bytes"]
    if not size:
        return str(kept)
    line = f"{kept}: {size:,.0f} bytes a token"
    if kept != report["dtype"]:
        line += f", {report['kv_tokens_gained']:.2f} times the tokens of {report['dtype']}"
    return line


def installed(name: str) -> str:
    """The version of a package."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"

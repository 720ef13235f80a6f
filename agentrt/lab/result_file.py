"""Files of results: what was measured, by which command, on which machine."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from agentrt.base.cpu_cores import cores
from agentrt.base.errors import UsageError
from agentrt.base.output_file import write_output


def header(schema: str) -> dict[str, Any]:
    """The first fields of every file: its schema, the command as it was typed, and the date."""
    return {
        "schema": schema,
        "command": short_paths(sys.argv[1:]),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def machine() -> dict[str, Any]:
    """The machine and the versions that computed."""
    return {
        "processor": _processor(),
        "cores": cores(),
        "load_average": list(os.getloadavg()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: _installed(name) for name in ("agentrt", "torch", "transformers", "triton")},
    }


def commit() -> str:
    """Commit of the sources if they lie in a repository, else ""."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def short_paths(value: Any) -> Any:
    """A value as JSON has it; of an absolute path, which is private, the last two names."""
    if isinstance(value, Mapping):
        return {name: short_paths(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [short_paths(one) for one in value]
    if isinstance(value, str) and value.startswith("/"):
        return "/".join(value.split("/")[-2:])
    return value


def read_json(path: Path, schema: str, hint: str) -> dict[str, Any]:
    """Read a file of results.

    Raises:
        UsageError: There is no such file, or it has another schema.
    """
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint=hint) from error
    except ValueError as error:
        raise UsageError(f"{path} is no JSON: {error}", hint=hint) from error
    if not isinstance(found, dict) or found.get("schema") != schema:
        raise UsageError(f"{path} does not hold {schema}", hint=hint)
    return found


def write_json(path: Path | None, found: object) -> None:
    """Write a result; None writes nothing."""
    if path is not None:
        write_text(path, json.dumps(found, indent=1) + "\n")


def write_text(path: Path | None, text: str) -> None:
    """Write a file and the folders above it; None writes nothing.

    Raises:
        UsageError: The file cannot be written.
    """
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_output(path, text)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2] for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0].strip() if names else platform.processor()


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"

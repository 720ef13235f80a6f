"""What `agentrt sim` writes, and from which sources it came."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import typer

from agentrt.lab.commands.bench import write


def keep_costs(path: Path, told: dict[str, Any]) -> None:
    """Write costs, and tell what a step takes."""
    write(path, told)
    typer.echo(json.dumps(told["step"] | {"pair_s": told["pair_s"]}))
    typer.echo(f"measured by computed: {told['about'].get('measured_by_computed')}")


def write_page(path: Path, text: str) -> None:
    """Write a page where nobody may have written before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def commit() -> str:
    """Of the sources, where they lie in a repository; "" elsewhere."""
    try:
        told = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return told.stdout.strip()

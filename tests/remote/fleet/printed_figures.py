"""Figures that a driver of this folder prints, for tests."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
LIMIT_S = 900
FAULTLESS = {"lost": 0, "diverged": 0, "wrong": 0, "twice": 0, "missing": 0}
"""Counts of programs under faults that did no harm."""


def printed(module: str, *arguments: str) -> dict[str, Any]:
    """What a driver prints. It runs in namespaces of its own, which this process may not enter."""
    command = [sys.executable, "-m", f"tests.remote.fleet.{module}", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def harm_of(found: dict[str, Any]) -> dict[str, int]:
    """The counts of a play that are to be those of `FAULTLESS`."""
    return {name: found[name] for name in FAULTLESS}

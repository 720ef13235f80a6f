"""The wheel with recorded tasks: fetched once through pip, checked against its digest, never run.

Run as `python -m agentrt.lab.sessions.wheel`. The recordings are those of `agentperf-local`, by
Artificial Analysis (Apache-2.0).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

from agentrt.base.errors import UsageError
from agentrt.lab.progress import log

PACKAGE, VERSION = "agentperf-local", "0.3.4"
DIGEST = "a2562d0cc5449fa801d45053a80f634d4b23e540f3d78b3beac14b498f371c5d"
_FILE = f"{PACKAGE.replace('-', '_')}-{VERSION}-py3-none-any.whl"
_PYTHON = "3.12"  # of the wheel, which is read and not run, so ours may be older


def wheel_path() -> Path:
    """The path of the fetched wheel: in AGENTRT_SOURCES, or in the user's cache."""
    home = os.environ.get("AGENTRT_SOURCES") or Path.home() / ".cache" / "agentrt" / "sources"
    return Path(home) / f"{PACKAGE}-{VERSION}" / _FILE


def recorded_wheel(path: Path | None = None) -> Path:
    """The wheel, fetched if it is not there yet.

    Args:
        path: A file to take instead, which is not checked; None takes that of the cache.

    Raises:
        UsageError: The wheel cannot be fetched, or its digest is another one.
    """
    if path is not None:
        if not path.is_file():
            raise UsageError(f"there is no wheel {path}", hint="Leave --wheel out to fetch it")
        return path
    target = wheel_path()
    if not target.is_file():
        fetch_wheel(target)
    check_digest(target)
    return target


def fetch_wheel(target: Path) -> None:
    """Download the wheel, and keep it if its digest is right.

    Raises:
        UsageError: pip cannot download it, or its digest is another one.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries", "1"]
    command += ["--python-version", _PYTHON, "--only-binary=:all:", f"{PACKAGE}=={VERSION}"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*command, "--dest", folder], capture_output=True, text=True, check=False
        )
        found = Path(folder) / _FILE
        if not found.is_file():
            lines = done.stderr.strip().splitlines() or [f"pip ended with {done.returncode}"]
            raise UsageError(
                f"{PACKAGE} {VERSION} cannot be downloaded: {lines[-1]}",
                hint=f"Put {_FILE} into {target.parent}, or name it with --wheel",
            )
        check_digest(found)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(found, target)


def check_digest(path: Path) -> None:
    """Check that a file is the wheel that the recordings were read from.

    Raises:
        UsageError: The SHA-256 digest is another one.
    """
    found = sha256(path.read_bytes()).hexdigest()
    if found != DIGEST:
        raise UsageError(
            f"{path} has the SHA-256 digest {found}, not {DIGEST}",
            hint="Remove it, so that it is fetched again",
        )


if __name__ == "__main__":
    try:
        log(f"recorded sessions are in {recorded_wheel()}")
    except UsageError as error:
        log(f"no recorded sessions: {error}")

"""Files of SQLite databases, each of which has its log and its index beside it."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

_PARTS = ("", "-wal", "-shm")


def move_aside(path: Path) -> Path:
    """Keep a broken database under another name, so that a new one can begin.

    Args:
        path: The database; parts of it that are not there are left out.

    Returns:
        Its new path.

    Raises:
        OSError: A part cannot be moved.
    """
    aside = path.with_name(f"{path.name}.broken-{time.time_ns()}")
    for part in _PARTS:
        with suppress(FileNotFoundError):
            path.with_name(path.name + part).rename(aside.with_name(aside.name + part))
    return aside

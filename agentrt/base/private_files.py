"""Files that only their owner can read."""

from __future__ import annotations

import os
from pathlib import Path

FILE_MODE = 0o600
FOLDER_MODE = 0o700


def make_private_folder(folder: Path) -> None:
    """Create `folder` and the missing folders above it, for their owner alone.

    Raises:
        OSError: The folder cannot be created.
    """
    for parent in reversed((folder, *folder.parents)):
        parent.mkdir(mode=FOLDER_MODE, exist_ok=True)


def make_private_file(path: Path) -> None:
    """Create an empty file, readable by its owner only; an existing file keeps its content.

    Raises:
        OSError: The file cannot be created.
    """
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE), "rb") as file:
        if os.fstat(file.fileno()).st_mode & 0o077:
            os.fchmod(file.fileno(), FILE_MODE)

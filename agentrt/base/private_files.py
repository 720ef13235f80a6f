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
    if not os.path.isdir(folder):
        make_private_folder(folder.parent)
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)


def make_private_file(path: Path) -> None:
    """Create an empty file, readable by its owner only; an existing file keeps its content.

    Raises:
        OSError: The file cannot be created.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        os.fchmod(descriptor, FILE_MODE)
    finally:
        os.close(descriptor)

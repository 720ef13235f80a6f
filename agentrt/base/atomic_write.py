"""Atomic writes: others find a file as it was or whole, also if the write fails half-way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_write(
    path: Path, *, mode: int | None = None, is_durable: bool = False
) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` at the end of the block, unless it raises.

    A link is replaced, not followed.

    Args:
        path: The file; its folder has to be there.
        mode: Permission bits, whatever the umask says; None leaves them to the umask.
        is_durable: Whether to wait until the disk has the content and the name.

    Raises:
        OSError: The file cannot be written; nothing is left beside it.

    Example:
        ``with atomic_write(path) as file: file.write(content)``
    """
    # The name says nothing of the file's, which may be as long as the file system allows.
    draft = path.with_name(f".{os.urandom(8).hex()}.part")
    created = 0o666 if mode is None else mode
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, created)) as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            yield file
            file.flush()
            if is_durable:
                os.fsync(file.fileno())
        draft.replace(path)
        if is_durable:
            sync_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def write_atomically(
    path: Path, content: bytes, *, mode: int | None = None, is_durable: bool = False
) -> None:
    """Write a file by `atomic_write`, whose arguments and errors these are.

    Example:
        >>> write_atomically(Path("absent/file"), b"content")
        Traceback (most recent call last):
        FileNotFoundError: ...
    """
    with atomic_write(path, mode=mode, is_durable=is_durable) as file:
        file.write(content)


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names of a folder: syncing a new file does not keep its name.

    Raises:
        OSError: The folder cannot be synced.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

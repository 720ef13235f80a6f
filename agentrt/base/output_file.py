"""Files that a command writes where a flag says: checked before the work, and written whole."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from agentrt.base.atomic_write import write_atomically
from agentrt.base.errors import UsageError
from agentrt.base.private_files import FILE_MODE

_HINT = "name a file in a folder that is there and may be written"


def check_output(path: Path, flag: str = "", *, makes_folders: bool = False) -> None:
    """Check that a file can be written, before the work that leads to it.

    Args:
        path: The file.
        flag: Flag that gives it, for messages.
        makes_folders: Whether folders above it are made with it.

    Raises:
        UsageError: A folder has that name, its own folder is missing, or a right is.

    Example:
        >>> check_output(Path("/"), "--out")
        Traceback (most recent call last):
        agentrt.base.errors.program_errors.UsageError: --out /: is a folder. name a file ...
    """
    named = f"{flag} {path}".strip()
    if path.is_dir():
        raise UsageError(f"{named}: is a folder", hint=_HINT)
    folder = path.parent
    while makes_folders and not os.path.lexists(folder):
        folder = folder.parent
    if not folder.is_dir():
        what = (
            f"{folder} is no folder" if os.path.lexists(folder) else f"there is no folder {folder}"
        )
        raise UsageError(f"{named}: {what}", hint=_HINT)
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise UsageError(f"{named}: may not be written", hint=_HINT)


def write_output(path: Path, text: str, *, private: bool = False) -> None:
    """Write a file, so that others find it as it was or whole.

    What is no regular file, such as a device or a pipe, is written as it is; a link stays one. A
    file that is there keeps its mode.

    Args:
        path: The file; its folder has to be there.
        text: Text of the file; lone surrogates are escaped.
        private: Whether only its owner can read it.

    Raises:
        UsageError: The file cannot be written; nothing is left beside it.
    """
    content = text.encode("utf-8", "backslashreplace")
    mode = FILE_MODE if private else None
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            target.write_bytes(content)
            return
        if mode is None and target.exists():
            mode = stat.S_IMODE(target.stat().st_mode)
        write_atomically(target, content, mode=mode)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", hint=_HINT) from None

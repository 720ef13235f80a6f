"""Rules of paths that flags give: a folder is there, a file can be written."""

from __future__ import annotations

import os
from pathlib import Path

from agentrt.base.errors import UsageError
from agentrt.base.output_file import check_output


def output_file(path: Path, flag: str) -> None:
    """Check that a file can be written; folders above it are made with it.

    Raises:
        UsageError: The file cannot be written.
    """
    check_output(path, flag, makes_folders=True)


def input_folder(path: Path, flag: str) -> None:
    """Check that a folder is there and can be read.

    Raises:
        UsageError: There is no such folder, or no right to read the folder.
    """
    hint = f"Give {flag} a folder that is there"
    if not path.is_dir():
        what = "is a file" if path.exists() else "there is no such folder"
        raise UsageError(f"{flag} {path}: {what}", hint=hint)
    if not os.access(path, os.R_OK | os.X_OK):
        raise UsageError(f"{flag} {path}: may not be read", hint=hint)

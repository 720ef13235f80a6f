"""`agentrt init`: a folder to start from."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from agentrt.base.errors import UsageError

ALLOWED = {".git", ".venv"}
"""Names that may be in the folder before."""
_SUFFIX = ".txt"  # of Python files in the package, which are no modules of it
_NEXT = """
cd {folder}
pytest
agentrt run orders.py --text "Mara Lindt, Oslo: 3 desk lamps."
"""


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder that is empty or does not exist.")
    ],
) -> int:
    """Make a folder with a program, a tool and a test that passes."""
    refuse_full(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in starter_files().items():
            (folder / name).write_text(text, encoding="utf-8")
            sys.stderr.write(f"wrote {folder / name}\n")
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be written: {error.strerror}", hint="name a folder of your own"
        ) from None
    sys.stderr.write(_NEXT.format(folder=shlex.quote(str(folder))))
    return 0


def refuse_full(folder: Path) -> None:
    """Check that nothing would be overwritten.

    Raises:
        UsageError: The folder is not empty, or is no folder.
    """
    if folder.is_dir():
        found = sorted(path.name for path in folder.iterdir() if path.name not in ALLOWED)
        if found:
            raise UsageError(
                f"{folder} is not empty: it has {', '.join(found[:3])}",
                hint="name a new folder; nothing is overwritten",
            )
    elif folder.exists() or folder.is_symlink():
        raise UsageError(f"{folder} is no folder", hint="name a new folder")


def starter_files() -> dict[str, str]:
    """The files of the folder by name."""
    from importlib.resources import files

    place = files(__package__).joinpath("starter")
    return {
        one.name.removesuffix(_SUFFIX): one.read_text("utf-8")
        for one in sorted(place.iterdir(), key=lambda one: one.name)
    }

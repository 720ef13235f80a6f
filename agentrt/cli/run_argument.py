"""The argument that names a past run, and the folder where it is looked up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from agentrt.cli.completion import run_names

Folder = Annotated[Path | None, typer.Option("--folder", metavar="DIR", help="Of trace files.")]


def run_argument(metavar: str = "RUN") -> Any:
    """An argument of a command: a trace file, `last`, or the beginning of an id."""
    return typer.Argument(
        metavar=metavar,
        help="A trace file, `last`, or the start of an id.",
        autocompletion=run_names,
    )

"""Flags of commands that run the cases of a suite, declared alike by each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Cases: TypeAlias = Annotated[
    Path | None,
    typer.Option("--cases", metavar="FILE", help="Cases in place of those of the suite."),
]
Concurrency: TypeAlias = Annotated[
    int, typer.Option("--concurrency", metavar="N", min=1, help="Cases at once.")
]
Seed: TypeAlias = Annotated[
    int, typer.Option("--seed", metavar="N", help="Seed of sampling and of intervals.")
]
Resume: TypeAlias = Annotated[
    Path | None,
    typer.Option("--resume", metavar="FILE", help="Keep results there, and go on with them."),
]

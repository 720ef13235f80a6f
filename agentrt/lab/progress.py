"""Progress of long commands."""

from __future__ import annotations

import typer


def log(text: str) -> None:
    """Print progress to standard error, beside the result."""
    typer.echo(text, err=True)

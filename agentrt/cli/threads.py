"""`--threads`: how many compute, at most one a core."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from agentrt.errors import UsageError


def at_most_cores(threads: int) -> int:
    """The number, as it was given.

    More than there are cores wait for each other in every step, and measure nothing.

    Raises:
        UsageError: There are not so many cores, or it is below 0.
    """
    cores = len(os.sched_getaffinity(0))
    if not 0 <= threads <= cores:
        raise UsageError(
            f"--threads {threads} is out of range: this process may use {cores} "
            f"core{'s' if cores > 1 else ''}",
            hint=f"give 1 to {cores}, or 0 to let the engine choose"
            if cores > 1
            else "give 1 or 0",
        )
    return threads


Threads = Annotated[
    int,
    typer.Option(
        "--threads",
        callback=at_most_cores,
        help="Of our engine; 0 lets it choose, else at most one a core.",
    ),
]

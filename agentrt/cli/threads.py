"""`--threads`: how many compute, at most one a core."""

from __future__ import annotations

from typing import Annotated

import typer

from agentrt.base.errors import UsageError


def at_most_cores(threads: int) -> int:
    """The number, as it was given.

    More than there are cores wait for each other in every step, and measure nothing.

    Raises:
        UsageError: There are not so many cores, or it is below 0.
    """
    from agentrt.engine.ops.cpu_threads import cores

    most = cores()
    if not 0 <= threads <= most:
        raise UsageError(
            f"--threads {threads} is out of range: this process may use {most} "
            f"core{'s' if most > 1 else ''}",
            hint=f"give 1 to {most}, or 0 to let the engine choose" if most > 1 else "give 1 or 0",
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

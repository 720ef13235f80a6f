"""`--threads` of the laboratory: threads of the embedded engine."""

from __future__ import annotations

from typing import Annotated

import typer

from agentrt.base.cpu_cores import at_most_cores

Threads = Annotated[
    int,
    typer.Option(
        "--threads",
        callback=at_most_cores,
        help="Of our engine; 0 lets it choose, else at most one a core.",
    ),
]

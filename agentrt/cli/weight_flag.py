"""The flags of quantised weights, declared alike by every command that opens an engine."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

Weights: TypeAlias = Annotated[
    str,
    typer.Option(
        "--weights",
        metavar="checkpoint|int8|int4",
        envvar="AGENTRT_WEIGHTS",
        help="Quantise the embedded engine's matrices at load, to read fewer bytes a step.",
    ),
]
Activations: TypeAlias = Annotated[
    str,
    typer.Option(
        "--activations",
        metavar="auto|int8",
        envvar="AGENTRT_ACTIVATIONS",
        help="Round what quantised matrices multiply to int8 too: prompts and batches go faster.",
    ),
]

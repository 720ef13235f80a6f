"""Flags of weights, experts, adapters and KV, alike in every command that opens an engine."""

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
Adapters: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--adapter",
        metavar="NAME=DIR",
        help="A LoRA adapter of the embedded engine's model; model= names it, or a request.",
    ),
]
Activations: TypeAlias = Annotated[
    str,
    typer.Option(
        "--activations",
        metavar="auto|int8|fp8",
        envvar="AGENTRT_ACTIVATIONS",
        help="Round what quantised matrices multiply, too: int8 on a CPU, fp8 on a GPU.",
    ),
]

KvCacheDtype: TypeAlias = Annotated[
    str,
    typer.Option(
        "--kv-cache-dtype",
        metavar="auto|int8|fp8",
        envvar="AGENTRT_KV_CACHE_DTYPE",
        help="Keep the embedded engine's KV as it is computed, or in 8 bits for twice the tokens.",
    ),
]
ExpertMemory: TypeAlias = Annotated[
    str,
    typer.Option(
        "--expert-memory",
        metavar="SIZE",
        envvar="AGENTRT_EXPERT_MEMORY",
        help="Most fast memory for experts of the embedded engine's model, as 2GiB; the busiest "
        "are kept in it.",
    ),
]

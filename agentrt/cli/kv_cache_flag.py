"""The flag of the KV cache's type, declared alike by every command that opens an engine."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

KvCacheDtype: TypeAlias = Annotated[
    str,
    typer.Option(
        "--kv-cache-dtype",
        metavar="auto|int8",
        envvar="AGENTRT_KV_CACHE_DTYPE",
        help="Keep the embedded engine's KV as it is computed, or in 8 bits for twice the tokens.",
    ),
]

"""Flags of speculative decoding, declared alike by every command that opens an engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

SpeculateTokens: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--speculate-tokens",
        metavar="auto|off|N",
        envvar="AGENTRT_SPECULATE_TOKENS",
        help="Tokens that the embedded engine guesses and computes along; never changes one.",
    ),
]
DraftModel: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--draft-model",
        metavar="DIR",
        envvar="AGENTRT_DRAFT_MODEL",
        help="A smaller checkpoint with the same vocabulary, or an EAGLE-3 head: it guesses too.",
    ),
]

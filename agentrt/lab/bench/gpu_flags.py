"""Flags of `agentrt bench gpu`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from agentrt.base.record import record


@record
class GpuFlags:
    """Flags of `agentrt bench gpu`."""

    json_path: Annotated[Path, Option("--json", metavar="PATH", help="Write all of it there.")]
    rehearse: Annotated[
        bool, Option("--rehearse", help="The same code over models of two layers on the CPU.")
    ] = False

"""Flags of `agentrt bench structured`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from agentrt.base.record import record
from agentrt.lab.flags import JsonPath


@record
class StructuredFlags:
    """Flags of `agentrt bench structured`."""

    data: Annotated[Path, Option(metavar="FOLDER", help="Folder of cases, a JSON object a line.")]
    vocabulary: Annotated[str, Option(help="embedded, 32k or 128k, separated by commas.")] = (
        "embedded,128k"
    )
    peer: Annotated[list[str] | None, Option(help="xgrammar or outlines-core; repeatable.")] = None
    most: Annotated[int, Option(help="Cases put to peers over a large vocabulary; 0 puts all.")] = (
        60
    )
    patience: Annotated[float, Option(help="Seconds that a case may take.")] = 15.0
    json_path: JsonPath = None
    quick: Annotated[
        bool, Option("--quick", help="No more than --most cases anywhere: that it works.")
    ] = False

    @property
    def peers(self) -> tuple[str, ...]:
        """Peers, each once."""
        return tuple(dict.fromkeys(self.peer or ()))

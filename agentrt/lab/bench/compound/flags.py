"""Flags of `agentrt bench compound`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from agentrt.base.record import record
from agentrt.lab.flags import HtmlPath, JsonPath, Seed, Tenants, Threads


@record
class CompoundFlags:
    """Flags of `agentrt bench compound`."""

    shape: Annotated[str, Option(help="Of the model: micro, tiny, half or embedded.")] = "embedded"
    arms: Annotated[
        str,
        Option(help="agentrt, and asyncio or langgraph + llama-server, transformers or ours."),
    ] = "agentrt,asyncio+ours"
    shapes: Annotated[str, Option(help="Of programs, separated by commas, or all.")] = "all"
    repeats: Annotated[int, Option(help="Programs of each shape that count.")] = 5
    load: Annotated[str, Option(help="one program at a time, or open.")] = "one"
    rate: Annotated[
        str, Option(help="Of an open load, programs a second; auto finds where fcfs is slow.")
    ] = "auto"
    slowdown: Annotated[float, Option(help="Of fcfs at that rate, mean of programs.")] = 10.0
    programs: Annotated[int, Option(help="Of an open load, a draw.")] = 40
    kv_share: Annotated[
        float, Option(help="KV memory by the working set of the mix; 0 gives enough.")
    ] = 0.0
    policy: Annotated[
        str,
        Option(
            help="Of our arm: fcfs, lpm, plas, rwa, oracle; with +gate or -gate; several compete."
        ),
    ] = "rwa"
    scale: Annotated[
        str, Option(help="Such as context=0.1,output=0.1,time=0.05,count=0.5,think=0.")
    ] = ""
    threads: Threads = 0
    dtype: Annotated[str, Option(help="bfloat16 or float32; else by the model.")] = ""
    tenants: Tenants = 1
    seed: Seed = 0
    data: Annotated[
        Path | None, Option(metavar="FOLDER", help="Of public data to draw sizes from.")
    ] = None
    live: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Run its programs too, as they are (embedded only)."),
    ] = None
    json_path: JsonPath = None
    html_path: HtmlPath = None
    quick: Annotated[bool, Option("--quick", help="Small, one repeat: that it works.")] = False

    @property
    def counted(self) -> int:
        """Programs of each shape, or draws, that count."""
        return 1 if self.quick else self.repeats

"""Flags of `agentrt bench engine`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from agentrt.base.record import record
from agentrt.lab.flags import JsonPath, Threads


@record
class EngineFlags:
    """Flags of `agentrt bench engine`."""

    shape: Annotated[
        str, Option(help="micro, tiny, half, qwen2.5-0.5b, llama-3.1-8b or mixtral-scaled.")
    ] = "tiny"
    batch: Annotated[str, Option(help="Sequences at once, separated by commas.")] = "1,4,16"
    prompt: Annotated[str, Option(help="Own prompt tokens of each sequence.")] = "256"
    new: Annotated[int, Option(help="Tokens that each produces.")] = 32
    shared: Annotated[str, Option(help="Tokens of a prefix that all share.")] = "0"
    dtype: Annotated[str, Option(help="bfloat16, float32 or float16.")] = "bfloat16"
    threads: Threads = 0
    device: Annotated[str, Option(help="cpu or cuda.")] = "cpu"
    kernels: Annotated[str, Option(help="auto, torch, cpu, triton or reference.")] = "auto"
    peer: Annotated[
        list[str] | None, Option(help="hf, hf-cb or llama.cpp, beside ours; repeatable.")
    ] = None
    json_path: JsonPath = None
    constrained: Annotated[
        bool, Option("--constrained", help="Also with outputs held to a JSON type.")
    ] = False
    repeat: Annotated[int, Option(help="Rounds that count; 7 or more for a claim.")] = 7
    quick: Annotated[bool, Option("--quick", help="Two rounds: that it works.")] = False

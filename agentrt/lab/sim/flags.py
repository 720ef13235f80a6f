"""Flags of the commands of `agentrt sim`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from agentrt.base.record import record
from agentrt.lab.flags import HtmlPath, JsonPath, Seed, Tenants, Threads

Costs = Annotated[str, Option(help="half-cpu, 8b-h200, or a file of `sim fit` or `sim calibrate`.")]
OutPath = Annotated[Path, Option("--out", metavar="PATH", help="Write the costs there.")]


@record
class MixFlags:
    """Flags of a mix of programs on a simulated engine."""

    costs: Costs = "half-cpu"
    workload: Annotated[
        str, Option(help="mix, or shapes of programs separated by commas (in equal shares).")
    ] = "mix"
    scale: Annotated[
        str, Option(help="Factors on life size, such as context=0.25,output=1,time=1.")
    ] = ""
    max_running: Annotated[int, Option(help="Sequences that run at once.")] = 64
    step_tokens: Annotated[int, Option(help="Most tokens of a step.")] = 2048


@record
class StudyFlags(MixFlags):
    """Flags of draws of programs that arrive at one engine."""

    programs: Annotated[int, Option(help="Programs of a draw.")] = 200
    tenants: Tenants = 1
    bursts: Annotated[
        float, Option(help="Coefficient of variation of arrival gaps, above 1; 0 for Poisson.")
    ] = 0.0
    host_kv_tokens: Annotated[int, Option(help="KV tokens of the offload tier; 0 for none.")] = 0
    warm: Annotated[bool, Option("--warm/--cold", help="Estimates learned beforehand.")] = True
    json_path: JsonPath = None


@record
class RunFlags(StudyFlags):
    """Flags of `agentrt sim run`."""

    policy: Annotated[str, Option(help="fcfs, lpm, plas, rwa or oracle; +gate or -gate.")] = "rwa"
    rate: Annotated[float, Option(help="Programs a second; 0 keeps the engine busy.")] = 0.0
    kv_tokens: Annotated[int, Option(help="KV memory of the engine.")] = 16_384
    seed: Seed = 0


@record
class SweepFlags(StudyFlags):
    """Flags of `agentrt sim sweep`."""

    programs: Annotated[int, Option(help="Programs of a draw.")] = 300
    policies: Annotated[str, Option(help="Separated by commas; +gate or -gate changes one.")] = (
        "fcfs,lpm,plas,rwa,oracle"
    )
    rates: Annotated[
        str, Option(help="auto finds where fcfs is --slowdown slow; else programs a second.")
    ] = "auto"
    kv_share: Annotated[float, Option(help="KV memory by the working set of the mix.")] = 0.33
    kv_tokens: Annotated[int, Option(help="KV memory; 0 takes --kv-share.")] = 0
    slowdown: Annotated[float, Option(help="Slowdown of fcfs at which arms are compared.")] = 10.0
    seeds: Annotated[int, Option(help="Draws of programs and arrivals.")] = 5
    curves: Annotated[bool, Option("--curves/--no-curves", help="Rates around it, too.")] = True
    html_path: HtmlPath = None


@record
class FleetFlags(MixFlags):
    """Flags of `agentrt sim fleet`."""

    costs: Costs = "8b-h200"
    programs: Annotated[int, Option(help="Programs that arrive.")] = 100_000
    engines: Annotated[int, Option(help="Engines that serve them.")] = 128
    load: Annotated[float, Option(help="Arrivals divided by the capacity of the engines.")] = 0.7
    kv_tokens: Annotated[int, Option(help="KV memory of each engine.")] = 400_000
    routing: Annotated[
        str, Option(help="program- or request-; round-robin, least-loaded or two-choices; a list.")
    ] = "program-two-choices"
    gate_share: Annotated[float, Option(help="Share of memory for programs; 0 admits all.")] = 0.0
    order: Annotated[str, Option(help="At the gate: fcfs or rwa.")] = "rwa"
    library: Annotated[int, Option(help="Different programs to draw from.")] = 400
    seed: Seed = 0
    compared: Annotated[int, Option(help="Programs also served step by step; 0 for none.")] = 300
    json_path: JsonPath = None
    html_path: HtmlPath = None


@record
class FitFlags:
    """Flags of `agentrt sim fit`."""

    bench_file: Annotated[Path, Argument(help="File of `agentrt bench engine --json`.")]
    out: OutPath


@record
class CalibrateFlags:
    """Flags of `agentrt sim calibrate`."""

    out: OutPath
    model: Annotated[Path | None, Option(help="Model directory; else --shape or embedded.")] = None
    shape: Annotated[str, Option(help="Random weights of a shape: micro, tiny, half ...")] = ""
    seconds: Annotated[float, Option(help="Duration of the sweep.")] = 60.0
    kv_tokens: Annotated[int, Option(help="KV memory of the engine.")] = 32_768
    dtype: Annotated[str, Option(help="auto, float32, bfloat16 or float16.")] = "auto"
    threads: Threads = 0
    device: Annotated[str, Option(help="cpu or cuda.")] = "cpu"


@record
class ValidateFlags:
    """Flags of `agentrt sim validate`."""

    shape: Annotated[str, Option(help="Model: embedded, micro, tiny or half.")] = "embedded"
    costs: Annotated[str, Option(help="A file of `sim calibrate`; else it is measured first.")] = ""
    policies: Annotated[str, Option(help="Some of fcfs, lpm, plas, rwa.")] = "fcfs,lpm,plas,rwa"
    shapes: Annotated[str, Option(help="Shapes of programs, separated by commas.")] = (
        "react,tree-of-thought,map-reduce,chat"
    )
    programs: Annotated[int, Option(help="Programs at each of three loads.")] = 24
    kv_tokens: Annotated[int, Option(help="KV memory, too little for all programs.")] = 1024
    threads: Threads = 0
    seconds: Annotated[float, Option(help="Duration of the calibration.")] = 30.0
    seed: Seed = 0
    repeats: Annotated[int, Option(help="Repeats of each load by each policy.")] = 3
    json_path: JsonPath = None
    html_path: HtmlPath = None

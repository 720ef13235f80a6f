"""Flags of the commands of `agentrt sim`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from agentrt.base.record import record
from agentrt.lab.flags import (
    RESUME,
    Count,
    HtmlPath,
    JsonPath,
    Memory,
    Repeats,
    Seed,
    Slowdown,
    Tenants,
    Threads,
    rate_factors,
    rate_of,
)
from agentrt.lab.number_bounds import MOST_TOKENS, NumberBounds
from agentrt.lab.path_rules import input_folder, output_file
from agentrt.lab.quiet_machine import Busy
from agentrt.lab.resumed_file import ResumedFile

Costs = Annotated[str, Option(help="half-cpu, 8b-h200, or a file of `sim fit` or `sim calibrate`.")]
OutPath = Annotated[
    Path, Option("--out", metavar="PATH", help="Write the costs there."), output_file
]
PREDICTION_FILE = ResumedFile(
    "agentrt.sim.prediction/1",
    "Give --resume a file of agentrt sim predict, or one that is not there yet",
)

PLAYED_SHAPES = "react,tree-of-thought,map-reduce,chat"


@record
class MixFlags:
    """Flags of a mix of programs on a simulated engine.

    Attributes:
        workload: Programs: mix, or shapes separated by commas, in equal shares.
        scale: Factors on life size, such as context=0.25,output=1,time=1.
        max_running: Sequences that run at once.
        step_tokens: Most tokens of a step.
    """

    costs: Costs = "half-cpu"
    workload: str = "mix"
    scale: str = ""
    max_running: Count = 64
    step_tokens: Count = 2048


@record
class StudyFlags(MixFlags):
    """Flags of draws of programs that arrive at one engine.

    Attributes:
        programs: Programs of a draw.
        bursts: Deviation of the gaps between arrivals by their mean, above 1 (13 in a trace of a
            coding assistant); 0 for arrivals by chance.
        host_kv_tokens: Memory of the host for KV that the engine has no room for; 0 keeps none.
    """

    programs: int = 200
    tenants: Tenants = 1
    bursts: float = 0.0
    host_kv_tokens: int = 0
    warm: Annotated[
        bool, Option("--warm/--cold", help="Estimates learned from other programs beforehand.")
    ] = True
    json_path: JsonPath = None


@record
class RunFlags(StudyFlags):
    """Flags of `agentrt sim run`.

    Attributes:
        policy: Policy: fcfs, lpm, plas, rwa, oracle or clairvoyant; +gate or -gate changes its
            admission gate.
        rate: Programs a second; 0 keeps the engine busy.
        kv_tokens: KV memory of the engine.
    """

    policy: str = "rwa"
    rate: float = 0.0
    kv_tokens: Memory = 16_384
    seed: Seed = 0


@record
class SweepFlags(StudyFlags):
    """Flags of `agentrt sim sweep`.

    Attributes:
        programs: Programs of a draw.
        policies: Policies separated by commas; +gate or -gate changes the admission gate of one.
        rates: Programs a second; auto finds the rate at which fcfs has the slowdown --slowdown.
        kv_share: KV memory divided by the working set of the mix.
        kv_tokens: KV memory; 0 takes --kv-share.
        slowdown: Mean slowdown of fcfs at the rate of the comparison.
        seeds: Draws of programs and arrivals.
    """

    programs: int = 300
    policies: str = "fcfs,lpm,plas,rwa,oracle"
    rates: Annotated[str, rate_of] = "auto"
    kv_share: float = 0.33
    kv_tokens: int = 0
    slowdown: Slowdown = 10.0
    seeds: Repeats = 5
    curves: Annotated[bool, Option("--curves/--no-curves", help="Run at rates around it, too.")] = (
        True
    )
    html_path: HtmlPath = None


@record
class LoadFlags(StudyFlags):
    """Flags of `agentrt sim load`.

    Attributes:
        programs: Programs of a draw.
        policies: Policies separated by commas; +gate or -gate changes the admission gate of one.
        rate: Programs a second of the comparison; auto finds the rate at which fcfs+gate has the
            slowdown --slowdown, over all draws.
        factors: Rates of the curves, divided by that rate, separated by commas.
        kv_tokens: KV memory of the engine.
        slowdown: Mean slowdown of fcfs+gate at the rate of the comparison.
        draws: Draws of programs and arrivals.
        processes: Processes that serve them.
    """

    programs: int = 150
    policies: str = "fcfs,fcfs+gate,lpm+gate,plas+gate,rwa,oracle,clairvoyant"
    rate: Annotated[str, rate_of] = "auto"
    factors: Annotated[str, rate_factors] = "0.4,0.55,0.7,0.85,1,1.15"
    kv_tokens: int = 3760
    slowdown: Slowdown = 5.0
    draws: Repeats = 20
    processes: Annotated[int, NumberBounds(1, 1024).check] = 1
    html_path: HtmlPath = None


@record
class FleetFlags(MixFlags):
    """Flags of `agentrt sim fleet`.

    Attributes:
        programs: Programs that arrive.
        engines: Engines that serve them.
        load: Arrivals divided by the rate that the engines could serve.
        kv_tokens: KV memory of each engine.
        routing: program- or request- with round-robin, least-loaded or two-choices; several
            separated by commas.
        gate_share: Share of the memory for programs that began; 0 lets all in.
        order: Order at the gate: fcfs or rwa.
        library: Different programs to draw from.
        compared: Programs also served step by step on 8 engines; 0 for none.
    """

    costs: Costs = "8b-h200"
    programs: Annotated[int, NumberBounds(1, 10_000_000).check] = 100_000
    engines: Count = 128
    load: Annotated[float, NumberBounds(1e-3, 2).check] = 0.7
    kv_tokens: Annotated[int, NumberBounds(1, MOST_TOKENS).check] = 400_000
    routing: str = "program-two-choices"
    gate_share: float = 0.0
    order: str = "rwa"
    library: int = 400
    seed: Seed = 0
    compared: int = 300
    json_path: JsonPath = None
    html_path: HtmlPath = None


@record
class FitFlags:
    """Flags of `agentrt sim fit`."""

    bench_file: Annotated[Path, Argument(help="File of `agentrt bench engine --json`.")]
    out: OutPath


@record
class CalibrateFlags:
    """Flags of `agentrt sim calibrate`.

    Attributes:
        model: A model directory; without it --shape, or the embedded model.
        shape: Random weights of a named shape: micro, tiny, half ...
        seconds: Seconds of the measurement.
        kv_tokens: KV memory to give the engine.
        dtype: Dtype of the computation: auto, float32, bfloat16 or float16.
        device: Device of the engine: cpu or cuda.
        plays: Programs of each play that the costs are fitted to after the sweep; 0 plays none.
            `sim predict` needs costs that were fitted to plays.
        play_shapes: Shapes of these programs, separated by commas.
        play_kv_tokens: KV memory of the engine that plays them.
        seed: Seed of these programs; others than this one are predicted.
    """

    out: OutPath
    model: Annotated[Path | None, input_folder] = None
    shape: str = ""
    seconds: float = 60.0
    kv_tokens: int = 32_768
    dtype: str = "auto"
    threads: Threads = 0
    device: str = "cpu"
    plays: int = 0
    play_shapes: str = PLAYED_SHAPES
    play_kv_tokens: int = 1024
    seed: int = 1000


@record
class ValidateFlags:
    """Flags of `agentrt sim validate`.

    Attributes:
        shape: Shape of the model: embedded, micro, tiny or half.
        costs: A file of `sim calibrate`; without it the costs are measured first.
        policies: Policies separated by commas: some of fcfs, lpm, plas, rwa.
        shapes: Shapes of programs, separated by commas.
        programs: Programs at each of three loads.
        kv_tokens: KV memory of the engine; if all programs fit, all policies do alike.
        seconds: Seconds for which steps are measured.
        repeats: Repeats of each load by each policy, in turns.
    """

    shape: str = "embedded"
    costs: str = ""
    policies: str = "fcfs,lpm,plas,rwa"
    shapes: str = PLAYED_SHAPES
    programs: int = 24
    kv_tokens: int = 1024
    threads: Threads = 0
    seconds: float = 30.0
    seed: Seed = 0
    repeats: Repeats = 3
    json_path: JsonPath = None
    html_path: HtmlPath = None


@record
class PredictFlags:
    """Flags of `agentrt sim predict`.

    Attributes:
        costs: A file of `sim calibrate --plays`.
        shape: Shape of the model: embedded, micro, tiny or half.
        cases: all, or some of POLICY@LOAD, separated by commas: fcfs@0.3,rwa@0.9.
        policies: Policies separated by commas: some of fcfs, lpm, plas, rwa.
        shapes: Shapes of programs, separated by commas.
        programs: Programs at each of three loads.
        plays: Plays of each case.
        attempts: How often a case is played at most, if the halves of its plays disagree.
        kv_tokens: KV memory of the engine; if all programs fit, all policies do alike.
        busy: If others use the machine before a case: note it, wait, or refuse.
    """

    costs: str
    shape: str = "embedded"
    cases: str = "all"
    policies: str = "fcfs,lpm,plas,rwa"
    shapes: str = PLAYED_SHAPES
    programs: int = 24
    plays: int = 5
    attempts: Repeats = 2
    kv_tokens: int = 1024
    threads: Threads = 0
    seed: Seed = 0
    busy: Busy = "note"
    resume: Annotated[Path | None, RESUME, PREDICTION_FILE.check] = None
    json_path: JsonPath = None
    html_path: HtmlPath = None

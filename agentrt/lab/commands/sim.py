"""`agentrt sim`: many programs in virtual time, with the scheduler of production."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from agentrt.base.errors import UsageError
from agentrt.lab.commands.bench import factors, rate_of, tell, write
from agentrt.lab.commands.sim_files import commit, keep_costs, write_page
from agentrt.lab.commands.threads import Threads

sim = typer.Typer(
    help="Simulate many programs on one engine or many, with the scheduler of production.",
    no_args_is_help=True,
)

Costs = Annotated[
    str,
    typer.Option(help="half-cpu, 8b-h200, or a file of `sim fit` or `sim calibrate`."),
]
Workload = Annotated[
    str, typer.Option(help="mix, or shapes of programs separated by commas (in equal shares).")
]
ScaleOption = Annotated[
    str, typer.Option(help="Factors on life size, such as context=0.25,output=1,time=1.")
]
Json = Annotated[Path | None, typer.Option("--json", metavar="PATH", help="Write all of it there.")]
Html = Annotated[
    Path | None, typer.Option("--html", metavar="PATH", help="Write a page with plots there.")
]
Running = Annotated[int, typer.Option("--max-running", help="Sequences that run at once.")]
StepTokens = Annotated[int, typer.Option("--step-tokens", help="Most tokens of a step.")]
Bursts = Annotated[
    float,
    typer.Option(
        help="Deviation of the gaps between arrivals by their mean, above 1 (13 in a trace of a "
        "coding assistant); 0 for arrivals by chance."
    ),
]
HostTokens = Annotated[
    int,
    typer.Option(
        "--host-kv-tokens",
        help="Memory of the host for KV that the engine has no room for; 0 keeps none.",
    ),
]
Warm = Annotated[
    bool, typer.Option("--warm/--cold", help="Estimates learned from other programs beforehand.")
]


@sim.command("run")
def run(
    costs: Costs = "half-cpu",
    workload: Workload = "mix",
    policy: Annotated[
        str, typer.Option(help="fcfs, lpm, plas, rwa or oracle; +gate or -gate to change that.")
    ] = "rwa",
    rate: Annotated[float, typer.Option(help="Programs a second; 0 keeps the engine busy.")] = 0.0,
    kv_tokens: Annotated[int, typer.Option(help="KV memory of the engine.")] = 16_384,
    programs: Annotated[int, typer.Option(help="How many.")] = 200,
    tenants: Annotated[int, typer.Option(help="Among whom they are dealt out.")] = 1,
    scale: ScaleOption = "",
    seed: Annotated[int, typer.Option(help="Of programs and arrivals.")] = 0,
    max_running: Running = 64,
    step_tokens: StepTokens = 2048,
    bursts: Bursts = 0.0,
    host_kv_tokens: HostTokens = 0,
    *,
    warm: Warm = True,
    json_path: Json = None,
) -> int:
    """Serve one draw of programs by one policy, and tell what became of them."""
    from agentrt.lab.sim.arms import arms_named
    from agentrt.lab.sim.command import run_once

    beside = (max_running, step_tokens, bursts, host_kv_tokens)
    asked = _asked(costs, workload, programs, tenants, scale, *beside)
    arms = arms_named(policy)
    if len(arms) != 1:
        raise UsageError("`sim run` takes one policy", hint="Use `sim sweep` to compare several")
    if kv_tokens < 16 or rate < 0:
        raise UsageError(
            f"--kv-tokens {kv_tokens} --rate {rate} is out of range",
            hint="Give memory for a program, and a rate of 0 or more",
        )
    found = run_once(asked, arms[0], rate=rate, kv_tokens=kv_tokens, seed=seed, warm=warm)
    for name, value in found.items():
        typer.echo(f"{name:24} {value if isinstance(value, str | int) else f'{value:.6g}'}")
    if json_path is not None:
        write(json_path, found)
    return 0


@sim.command("fit")
def fit(
    bench_file: Annotated[Path, typer.Argument(help="Of `agentrt bench engine --json`.")],
    out: Annotated[Path, typer.Option("--out", metavar="PATH", help="Write the costs there.")],
) -> int:
    """Find what steps take from a measurement of the engine."""
    from dataclasses import replace

    from agentrt.lab.sim.bench_file import observed_in
    from agentrt.lab.sim.costs import HALF_ON_TWO_CORES, MEMORY_BYTES_S
    from agentrt.lab.sim.fit import fit as fitted

    observed, about = observed_in(bench_file)
    found = fitted(observed)
    about |= {
        "commit": commit(),
        "samples": found.observations,
        "measured_by_computed": found.residuals,
        "around": "typical, not measured: `sim calibrate` measures it",
    }
    result = replace(
        HALF_ON_TWO_CORES,  # what the runtime takes is not in such a file
        step=found.step,
        pair_s=found.pair_s,
        copy_token_s=about["kv_token_bytes"] / MEMORY_BYTES_S,
        kv_token_bytes=about["kv_token_bytes"],
        about=about,
    )
    keep_costs(out, result.to_json())
    return 0


@sim.command("calibrate")
def calibrate(
    out: Annotated[Path, typer.Option("--out", metavar="PATH", help="Write the costs there.")],
    model: Annotated[
        Path | None, typer.Option(help="A model directory; else --shape, or the embedded model.")
    ] = None,
    shape: Annotated[
        str, typer.Option(help="Random weights of a named shape: micro, tiny, half ...")
    ] = "",
    seconds: Annotated[float, typer.Option(help="To go on measuring for.")] = 60.0,
    kv_tokens: Annotated[int, typer.Option(help="KV memory to give the engine.")] = 32_768,
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
    threads: Threads = 0,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> int:
    """Measure what steps and the runtime take, on this machine."""
    from dataclasses import replace
    from functools import partial

    import anyio

    from agentrt import embedded
    from agentrt.base.config import EngineConfig
    from agentrt.lab.bench.engine.result import machine
    from agentrt.lab.checkpoints.checkpoint import checkpoint
    from agentrt.lab.checkpoints.shapes import shape_named
    from agentrt.lab.sim.calibrate import calibrate as calibrated
    from agentrt.lab.sim.copies import measure_copies

    if model is not None and shape:
        raise UsageError("--model and --shape are two models", hint="Give one of them")
    if dtype not in ("auto", "float32", "bfloat16", "float16") or device not in ("cpu", "cuda"):
        raise UsageError(
            f"--dtype {dtype} --device {device} is not known",
            hint="Use auto, float32, bfloat16 or float16, and cpu or cuda",
        )
    path = checkpoint(shape_named(shape), tell=tell) if shape else model or Path(embedded.path())
    config = EngineConfig(
        path,
        dtype=dtype,  # type: ignore[arg-type]
        threads=threads,
        device=device,  # type: ignore[arg-type]
    )
    about = {"commit": commit(), "machine": machine(), "dtype": dtype, "threads": threads}
    found = anyio.run(
        partial(calibrated, config, seconds=seconds, kv_tokens=kv_tokens, about=about, tell=tell)
    )
    if (copies := anyio.run(measure_copies, config)) is not None:
        found = replace(found, copy_token_s=copies.token_s, kv_token_bytes=copies.token_bytes)
    keep_costs(out, found.to_json())
    return 0


@sim.command("sweep")
def sweep(
    costs: Costs = "half-cpu",
    workload: Workload = "mix",
    policies: Annotated[
        str, typer.Option(help="Separated by commas; +gate or -gate changes one.")
    ] = "fcfs,lpm,plas,rwa,oracle",
    rates: Annotated[
        str, typer.Option(help="auto finds where fcfs is --slowdown slow; else programs a second.")
    ] = "auto",
    kv_share: Annotated[
        float, typer.Option(help="KV memory by the working set of the mix.")
    ] = 0.33,
    kv_tokens: Annotated[int, typer.Option(help="KV memory; 0 takes --kv-share.")] = 0,
    slowdown: Annotated[float, typer.Option(help="Of fcfs, where to compare.")] = 10.0,
    seeds: Annotated[int, typer.Option(help="Draws of programs and arrivals.")] = 5,
    programs: Annotated[int, typer.Option(help="A draw.")] = 300,
    tenants: Annotated[int, typer.Option(help="Among whom they are dealt out.")] = 1,
    scale: ScaleOption = "",
    max_running: Running = 64,
    step_tokens: StepTokens = 2048,
    bursts: Bursts = 0.0,
    host_kv_tokens: HostTokens = 0,
    *,
    warm: Warm = True,
    curves: Annotated[
        bool, typer.Option("--curves/--no-curves", help="Run at rates around it, too.")
    ] = True,
    json_path: Json = None,
    html_path: Html = None,
) -> int:
    """Compare policies on one mix, at the rate where an engine that knows requests is slow."""
    from agentrt.lab.sim.command import run_sweep
    from agentrt.lab.sim.costs import load_costs
    from agentrt.lab.sim.sweep import to_json
    from agentrt.lab.sim.sweep_page import sweep_page

    beside = (max_running, step_tokens, bursts, host_kv_tokens)
    asked = _asked(costs, workload, programs, tenants, scale, *beside)
    found = run_sweep(
        asked,
        policies,
        rate=rate_of(rates, "--rates"),
        kv_share=kv_share,
        kv_tokens=kv_tokens,
        slowdown=slowdown,
        seeds=seeds,
        warm=warm,
        curves=curves,
        tell=tell,
    )
    about = {**asked.about(load_costs(costs)), "commit": commit(), "warm": warm}
    for target in found.targets():
        typer.echo(str(target))
    if json_path is not None:
        write(json_path, to_json(found, about, sys.argv[1:]))
    if html_path is not None:
        write_page(html_path, sweep_page(found, about))
    return 0


@sim.command("fleet")
def fleet(
    programs: Annotated[int, typer.Option(help="That arrive.")] = 100_000,
    engines: Annotated[int, typer.Option(help="That serve them.")] = 128,
    costs: Costs = "8b-h200",
    workload: Workload = "mix",
    load: Annotated[float, typer.Option(help="Arrivals by what the engines could do.")] = 0.7,
    kv_tokens: Annotated[int, typer.Option(help="KV memory of each engine.")] = 400_000,
    routing: Annotated[
        str,
        typer.Option(
            help="program- or request- with round-robin, least-loaded or two-choices; several "
            "separated by commas."
        ),
    ] = "program-two-choices",
    gate_share: Annotated[
        float, typer.Option(help="Of the memory, for programs that began; 0 lets all in.")
    ] = 0.0,
    order: Annotated[str, typer.Option(help="At the gate: fcfs or rwa.")] = "rwa",
    scale: ScaleOption = "",
    library: Annotated[int, typer.Option(help="Different programs to draw from.")] = 400,
    seed: Annotated[int, typer.Option(help="Of programs and arrivals.")] = 0,
    compared: Annotated[
        int, typer.Option(help="Programs also served step by step on 8 engines; 0 for none.")
    ] = 300,
    max_running: Running = 64,
    step_tokens: StepTokens = 2048,
    *,
    json_path: Json = None,
    html_path: Html = None,
) -> int:
    """Serve very many programs on many engines, by rates instead of steps."""
    from agentrt.lab.sim.fluid.command import FleetAsked, fleet_page, run_fleet

    if order not in ("fcfs", "rwa"):
        raise UsageError(f"--order {order} is not known", hint="Use fcfs or rwa")
    asked = FleetAsked(
        _asked(costs, workload, library, 1, scale, max_running, step_tokens),
        programs,
        engines,
        load,
        kv_tokens,
        tuple(routing.split(",")),  # type: ignore[arg-type]
        gate_share,
        "fcfs" if order == "fcfs" else "rwa",
        seed,
        compared,
    )
    found = run_fleet(asked, sys.argv[1:], tell)
    if json_path is not None:
        write(json_path, found)
    if html_path is not None:
        write_page(html_path, fleet_page(found))
    return 0


@sim.command("validate")
def validate(
    shape: Annotated[str, typer.Option(help="Of the model: embedded, micro, tiny or half.")] = (
        "embedded"
    ),
    costs: Annotated[
        str, typer.Option(help="A file of `sim calibrate`; else it is measured first.")
    ] = "",
    policies: Annotated[str, typer.Option(help="Some of fcfs, lpm, plas, rwa.")] = (
        "fcfs,lpm,plas,rwa"
    ),
    shapes: Annotated[str, typer.Option(help="Of programs, separated by commas.")] = (
        "react,tree-of-thought,map-reduce,chat"
    ),
    programs: Annotated[int, typer.Option(help="At each of three loads.")] = 24,
    kv_tokens: Annotated[
        int,
        typer.Option(help="KV memory of the engine; where all fit, all policies do alike."),
    ] = 1024,
    threads: Threads = 0,
    seconds: Annotated[float, typer.Option(help="To measure steps for.")] = 30.0,
    seed: Annotated[int, typer.Option(help="Of programs and arrivals.")] = 0,
    repeats: Annotated[int, typer.Option(help="Of each load by each policy, in turns.")] = 3,
    *,
    json_path: Json = None,
    html_path: Html = None,
) -> int:
    """Hold the simulator against the real engine: latencies, and the order of policies."""
    from agentrt.lab.commands.sim_validate import run_validation
    from agentrt.lab.sim.validate import MOST_ERROR
    from agentrt.lab.sim.validation_page import to_json, validation_page

    found, about = run_validation(
        shape=shape,
        costs=costs,
        policies=policies,
        shapes=tuple(shapes.split(",")),
        programs=programs,
        kv_tokens=kv_tokens,
        threads=threads,
        seconds=seconds,
        seed=seed,
        repeats=repeats,
    )
    for rate, ranking in found.rankings.items():
        order = f"{len(ranking.ranked)} of {len(ranking.pairs)} pairs of policies are ranked"
        if ranking.tau is not None:
            order += f", tau {ranking.tau:.2f}"
        typer.echo(f"{rate:.4g}/s: {order} (of all means: {ranking.plain_tau:.2f})")
    for name, share in (("p50", 0.5), ("p95", 0.95)):
        worst = found.worst(share)
        verdict = "within" if worst <= MOST_ERROR else "beyond"
        typer.echo(f"{name}: at worst {worst:.1%} off, {verdict} {MOST_ERROR:.0%}")
        typer.echo(f"  within it {found.within(share)} of {len(found.cases)} cases")
        if repeats > 1:
            typer.echo(f"  one repeat on the engine by another: {found.repeats_within(share)}")
    if json_path is not None:
        write(json_path, to_json(found, {**about, "commit": commit()}))
    if html_path is not None:
        write_page(html_path, validation_page(found, about))
    return 0


def _asked(
    costs: str,
    workload: str,
    programs: int,
    tenants: int,
    scale: str,
    max_running: int,
    step_tokens: int,
    bursts: float = 0.0,
    host_kv_tokens: int = 0,
) -> Any:
    from agentrt.lab.sim.command import SimRequest

    return SimRequest(
        costs,
        workload,
        programs,
        tenants,
        factors(scale, "--scale"),
        max_running,
        step_tokens,
        bursts,
        host_kv_tokens,
    )

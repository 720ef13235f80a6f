"""`agentrt bench`: the engine and the runtime beside the machine's limits and beside peers."""

from __future__ import annotations

import os

import typer

from agentrt.lab.bench.flags import (
    AdaptersFlags,
    CompoundFlags,
    DraftsFlags,
    EngineFlags,
    ExpertsFlags,
    GpuFlags,
    ServeFlags,
    StructuredFlags,
)
from agentrt.lab.bench.fleet.flags import FleetBenchFlags
from agentrt.lab.flags import add_command
from agentrt.lab.sessions.flags import SessionFlags

bench = typer.Typer(help="Measure the engine.", no_args_is_help=True)


def engine(flags: EngineFlags) -> None:
    """Sweep prompt, batch, shared prefix and dtype over random weights of a named shape."""
    from agentrt.lab.bench.engine.command import run_engine_bench

    run_engine_bench(flags)


def drafts(flags: DraftsFlags) -> None:
    """Time a token with speculative decoding of adaptive length, beside that without."""
    from agentrt.lab.bench.drafts.command import run_drafts_bench

    run_drafts_bench(flags)


def experts(flags: ExpertsFlags) -> None:
    """Time decode steps of a mixture of experts, beside transformers, in one process."""
    # Read when torch is first imported. Threads of torch that spin while they wait take the cores
    # of the other arms, and hold up their own if something else runs beside.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from agentrt.lab.bench.experts.command import run_experts_bench

    run_experts_bench(flags)


def adapters(flags: AdaptersFlags) -> None:
    """Time decode steps of a batch with several LoRA adapters, beside one and none."""
    from agentrt.lab.bench.adapters.command import run_adapters_bench

    run_adapters_bench(flags)


def gpu(flags: GpuFlags) -> int:
    """Check correctness and speed on a GPU, in one command and one file."""
    from agentrt.lab.bench.gpu import run_gpu_bench

    return run_gpu_bench(flags)


def structured(flags: StructuredFlags) -> None:
    """Measure what compiles, what is wrongly accepted, what masks cost, whether outputs close."""
    from agentrt.lab.bench.structured.command import run_structured_bench

    run_structured_bench(flags)


def compound(flags: CompoundFlags) -> None:
    """Compound latency of whole programs: ours beside plain clients of servers, same weights."""
    from agentrt.lab.bench.compound.command import run_compound_bench
    from agentrt.lab.bench.compound.page import html, in_words
    from agentrt.lab.result_file import write_json, write_text

    found = run_compound_bench(flags)
    for line in in_words(found):
        typer.echo(line)
    write_json(flags.json_path, found)
    if flags.html_path is not None:
        write_text(flags.html_path, html(found))


def serve(flags: ServeFlags) -> None:
    """The server: what it adds to a request, whom it lets wait, and whom it keeps out."""
    from agentrt.lab.bench.serve.command import run_serve_bench

    run_serve_bench(flags)


def fleet(flags: FleetBenchFlags) -> None:
    """Programs over replicas of a stock server, ours beside the strongest plain client."""
    from agentrt.lab.bench.fleet.command import run_fleet_bench

    run_fleet_bench(flags)


def sessions(flags: SessionFlags) -> None:
    """Sessions of agents: cached tokens, latency by turn, agents sustained within an SLO."""
    from agentrt.lab.sessions.command import run_sessions_bench

    run_sessions_bench(flags)


for command in (
    engine,
    drafts,
    experts,
    adapters,
    gpu,
    structured,
    compound,
    serve,
    fleet,
    sessions,
):
    add_command(bench, command)

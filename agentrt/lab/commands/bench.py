"""`agentrt bench`: what the engine does, held against the machine and against peers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from agentrt.base.errors import UsageError
from agentrt.lab.commands.threads import Threads

bench = typer.Typer(help="Measure the engine.", no_args_is_help=True)

_QUICK_REPEATS = 2


@bench.command("engine")
def engine(
    shape: Annotated[
        str, typer.Option(help="micro, tiny, half, qwen2.5-0.5b, llama-3.1-8b or mixtral-scaled.")
    ] = "tiny",
    batch: Annotated[str, typer.Option(help="Sequences at once, separated by commas.")] = "1,4,16",
    prompt: Annotated[str, typer.Option(help="Own prompt tokens of each sequence.")] = "256",
    new: Annotated[int, typer.Option(help="Tokens that each produces.")] = 32,
    shared: Annotated[str, typer.Option(help="Tokens of a prefix that all share.")] = "0",
    dtype: Annotated[str, typer.Option(help="bfloat16, float32 or float16.")] = "bfloat16",
    threads: Threads = 0,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    kernels: Annotated[str, typer.Option(help="auto, torch, cpu, triton or reference.")] = "auto",
    peer: Annotated[
        list[str] | None, typer.Option(help="hf, hf-cb or llama.cpp, beside ours; repeatable.")
    ] = None,
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="PATH", help="Write all samples there.")
    ] = None,
    constrained: Annotated[
        bool, typer.Option("--constrained", help="Also with outputs held to a JSON type.")
    ] = False,
    repeat: Annotated[int, typer.Option(help="Rounds that count; 7 or more for a claim.")] = 7,
    quick: Annotated[bool, typer.Option("--quick", help="Two rounds: that it works.")] = False,
) -> int:
    """Sweep prompt, batch, shared prefix and dtype over random weights of a named shape."""
    from agentrt.lab.bench.engine.command import EngineBench, run_engine_bench

    asked = EngineBench(
        shape=shape,
        batches=numbers(batch, "--batch"),
        prompts=numbers(prompt, "--prompt"),
        new_tokens=new,
        shared=numbers(shared, "--shared"),
        dtypes=tuple(dtype.split(",")),
        threads=threads,
        device=device,
        kernels=kernels,
        peers=tuple(peer or ()),
        repeats=_QUICK_REPEATS if quick else repeat,
        constrained=constrained,
    )
    run_engine_bench(
        asked,
        command=sys.argv[1:],
        tell=tell,
        keep=lambda found: write(json_path, found) if json_path is not None else None,
    )
    return 0


@bench.command("gpu")
def gpu(
    json_path: Annotated[Path, typer.Option("--json", metavar="PATH", help="Write all there.")],
    rehearse: Annotated[
        bool, typer.Option("--rehearse", help="The same code over models of two layers on the CPU.")
    ] = False,
) -> int:
    """Check correctness and speed on a GPU, in one command and one file."""
    from agentrt.lab.bench.gpu import check_gpu, failures
    from agentrt.lab.bench.gpu_plan import HOPPER, REHEARSAL

    plan = REHEARSAL if rehearse else HOPPER
    found = check_gpu(plan, json_path, command=sys.argv[1:], tell=tell)
    for target in found["targets"]:
        typer.echo(json.dumps(target))
    wrong = failures(found)
    for line in wrong:
        tell(line)
    return 1 if wrong else 0


@bench.command("structured")
def structured(
    data: Annotated[Path, typer.Option(metavar="FOLDER", help="Of cases, a JSON object a line.")],
    vocabulary: Annotated[
        str, typer.Option(help="embedded, 32k or 128k, separated by commas.")
    ] = "embedded,128k",
    peer: Annotated[
        list[str] | None, typer.Option(help="xgrammar or outlines-core; repeatable.")
    ] = None,
    most: Annotated[
        int, typer.Option(help="Cases put to peers over a large vocabulary; 0 puts all.")
    ] = 60,
    patience: Annotated[float, typer.Option(help="Seconds that a case may take.")] = 15.0,
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="PATH", help="Write all samples there.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="No more than --most cases anywhere: that it works.")
    ] = False,
) -> int:
    """What compiles, what is wrongly let through, what masks cost, whether outputs close."""
    from agentrt.lab.bench.structured.command import StructuredBench, run_structured_bench

    asked = StructuredBench(
        data=data,
        vocabularies=tuple(vocabulary.split(",")),
        peers=tuple(dict.fromkeys(peer or ())),
        most=most,
        everywhere=quick,
        patience_s=patience,
    )
    found = run_structured_bench(asked, command=sys.argv[1:], tell=tell)
    if json_path is not None:
        samples = found.pop("samples")
        write(json_path, found)
        lines = (json.dumps(one, separators=(",", ":")) for one in samples)
        json_path.with_suffix(".samples.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return 0


@bench.command("compound")
def compound(
    shape: Annotated[str, typer.Option(help="Of the model: micro, tiny, half or embedded.")] = (
        "embedded"
    ),
    arms: Annotated[
        str,
        typer.Option(
            help="agentrt, and asyncio or langgraph + llama-server, transformers or ours."
        ),
    ] = "agentrt,asyncio+ours",
    shapes: Annotated[str, typer.Option(help="Of programs, separated by commas, or all.")] = "all",
    repeats: Annotated[int, typer.Option(help="Programs of each shape that count.")] = 5,
    load: Annotated[str, typer.Option(help="one program at a time, or open.")] = "one",
    rate: Annotated[
        str,
        typer.Option(help="Of an open load, programs a second; auto finds where fcfs is slow."),
    ] = "auto",
    slowdown: Annotated[float, typer.Option(help="Of fcfs at that rate, mean of programs.")] = 10.0,
    programs: Annotated[int, typer.Option(help="Of an open load, a draw.")] = 40,
    kv_share: Annotated[
        float,
        typer.Option(help="KV memory by the working set of the mix; 0 gives enough."),
    ] = 0.0,
    policy: Annotated[
        str,
        typer.Option(
            help="Of our arm: fcfs, lpm, plas, rwa, oracle; with +gate or -gate; several compete."
        ),
    ] = "rwa",
    scale: Annotated[
        str, typer.Option(help="Such as context=0.1,output=0.1,time=0.05,count=0.5,think=0.")
    ] = "",
    threads: Threads = 0,
    dtype: Annotated[str, typer.Option(help="bfloat16 or float32; else by the model.")] = "",
    tenants: Annotated[int, typer.Option(help="Of an open load.")] = 1,
    seed: Annotated[int, typer.Option(help="Of all draws.")] = 0,
    data: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Of public data to draw sizes from.")
    ] = None,
    live: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Run its programs too, as they are (embedded only)."),
    ] = None,
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="PATH", help="Write all samples there.")
    ] = None,
    html_path: Annotated[
        Path | None, typer.Option("--html", metavar="PATH", help="Write a page with plots there.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small, one repeat: that it works.")] = (
        False
    ),
) -> int:
    """Compound latency of whole programs: ours beside plain clients of servers, same weights."""
    from agentrt.lab.bench.compound.command import CompoundBench, run_compound_bench
    from agentrt.lab.bench.compound.page import html, told_of
    from agentrt.lab.sim.arms import arms_named

    asked = CompoundBench(
        shape=shape,
        arms=tuple(dict.fromkeys(arms.split(","))),
        shapes=names_of_programs(shapes),
        repeats=1 if quick else repeats,
        load=load,
        rate=rate_of(rate),
        slowdown=slowdown,
        programs=programs,
        kv_share=kv_share,
        policies={arm.name: arm.scheduler for arm in arms_named(policy)},
        scale=factors(scale, "--scale"),
        threads=threads,
        dtype=dtype,
        tenants=tenants,
        seed=seed,
        data=data,
        quick=quick,
        live=live,
    )
    found = run_compound_bench(asked, command=sys.argv[1:], tell=tell)
    for line in told_of(found):
        typer.echo(line)
    if json_path is not None:
        write(json_path, found)
    if html_path is not None:
        html_path.parent.mkdir(parents=True, exist_ok=True)
        html_path.write_text(html(found), "utf-8")
    return 0


def names_of_programs(text: str) -> tuple[str, ...]:
    """Shapes of programs, separated by commas; `all` are all of them."""
    from agentrt.lab.workloads.shapes import SHAPES

    return tuple(SHAPES) if text == "all" else tuple(dict.fromkeys(text.split(",")))


def rate_of(text: str, flag: str = "--rate") -> float:
    """Programs a second; 0 for `auto`.

    Raises:
        UsageError: It is no rate.
    """
    try:
        found = 0.0 if text == "auto" else float(text)
    except ValueError:
        found = -1.0
    if text != "auto" and not found > 0:
        raise UsageError(f"{flag} {text} is no rate", hint="Give programs a second, or auto")
    return found


def factors(text: str, flag: str) -> dict[str, float]:
    """Names and numbers, such as `output=0.1,time=0.5`.

    Raises:
        UsageError: Something else stands there.
    """
    try:
        pairs = (part.split("=") for part in text.split(",") if part)
        return {name.strip(): float(value) for name, value in pairs}
    except ValueError:
        raise UsageError(
            f"{flag} {text} is no list of factors", hint=f"Write {flag} output=0.1,time=0.5"
        ) from None


def numbers(text: str, flag: str) -> tuple[int, ...]:
    """Numbers separated by commas.

    Raises:
        UsageError: Something else stands there.
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"{flag} {text} is no list of whole numbers", hint=f"Write {flag} 1,4,16"
        ) from None


def tell(text: str) -> None:
    """What goes on, beside the result."""
    typer.echo(text, err=True)


def write(path: Path, found: object) -> None:
    """A benchmark's file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n", "utf-8")

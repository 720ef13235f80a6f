"""`agentrt compile`: a model as the CPU kernels read it, for starts in a fraction of the time."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast, get_args

import typer

from agentrt.base.config import EngineConfig, HeadWeights, WeightChoice
from agentrt.base.errors import UsageError

if TYPE_CHECKING:
    from agentrt.engine.runner.model_compiler import CompileResult

Dtype = Literal["auto", "float32", "bfloat16"]
DTYPES: tuple[str, ...] = get_args(Dtype)


def compile_command(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A checkpoint directory or a GGUF file; embedded: the shipped one.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="A new directory, or a compiled one to replace; else NAME-compiled, here.",
        ),
    ] = None,
    weights: Annotated[
        str,
        typer.Option(
            "--weights",
            metavar="checkpoint|int8|int4",
            help="Round the matrices to 8 or 4 bits, once and for all.",
        ),
    ] = "checkpoint",
    weight_group: Annotated[
        int,
        typer.Option(
            "--weight-group", metavar="N", help="Inputs that share a scale: 32, 64 or 128."
        ),
    ] = 0,
    head_weights: Annotated[
        str,
        typer.Option(
            "--head-weights",
            metavar="auto|checkpoint|int8|int4",
            help="Format of the head beside --weights; auto is int8.",
        ),
    ] = "auto",
    dtype: Annotated[
        str,
        typer.Option("--dtype", metavar="|".join(DTYPES), help="Type of activations."),
    ] = "auto",
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Show no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> int:
    """Lay a model out for this machine, so that it starts in a fraction of the time."""
    from agentrt.base.engine_extra import require_packages

    require_packages("agentrt compile")
    if dtype not in DTYPES:
        raise UsageError(f"--dtype {dtype} is none", hint=f"Give one of {', '.join(DTYPES)}")
    from agentrt.cli.quantize import model_path, progress_lines
    from agentrt.engine.runner.model_compiler import compile_model

    source = model_path(model)
    config = EngineConfig(
        source,
        weights=cast(WeightChoice, weights),
        weight_group=weight_group,
        head_weights=cast(HeadWeights, head_weights),
        dtype=cast(Dtype, dtype),
    )
    name = source.resolve().name
    target = out or Path(f"{name.removesuffix('.gguf')}-compiled")

    def tell(doing: str) -> None:
        if not quiet:
            sys.stderr.write(f"{doing}\n")

    on_layer = progress_lines("layers", time.monotonic, quiet=quiet)
    result = compile_model(config, target, tell, on_layer)
    sys.stdout.write(_as_json(target, result) if as_json else _as_text(target, result))
    return 0


def _as_text(out: Path, result: CompileResult) -> str:
    threads = result.model.threads
    counted = "" if threads is None else f", {threads.threads} threads"
    size = f"{result.written_bytes / 1e6:,.1f} MB"
    return f"{out}: {result.matrices}, {size}{counted}\n"


def _as_json(out: Path, result: CompileResult) -> str:
    model = result.model
    told = {
        "out": str(out),
        "matrices": result.matrices,
        "written_bytes": result.written_bytes,
        "parameters": model.parameters,
        "self_check": f"{model.check_state}: {model.check_reason}",
        "threads": None if model.threads is None else model.threads.threads,
        "settings": asdict(model.settings),
        "features": model.target.features,
    }
    return json.dumps(told) + "\n"

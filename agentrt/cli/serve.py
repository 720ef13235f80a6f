"""`agentrt serve`: chat completions over an embedded engine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentrt.base.cpu_cores import at_most_cores
from agentrt.base.engine_selection import with_drafts
from agentrt.base.errors import UsageError
from agentrt.base.format_choice import with_formats
from agentrt.base.gc_freeze import freeze_gc
from agentrt.base.key_reference import key_name
from agentrt.cli.draft_flags import DraftModel, SpeculateTokens
from agentrt.cli.format_flags import Activations, Adapters, ExpertMemory, KvCacheDtype, Weights

if TYPE_CHECKING:
    from agentrt.base.config import EngineConfig
    from agentrt.serve import ApiKey


def serve(
    checkpoint: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="A checkpoint, or embedded; --model says the same."),
    ] = "",
    model: Annotated[
        str,
        typer.Option("--model", metavar="PATH", envvar="AGENTRT_MODEL", help="A checkpoint."),
    ] = "",
    name: Annotated[
        str, typer.Option("--name", help="What clients call the model; else its directory's name.")
    ] = "",
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 takes a free one.")] = 8000,
    api_key: Annotated[
        list[str] | None,
        typer.Option(
            "--api-key",
            metavar="env:NAME",
            help="The variable with clients' key. Several keys are several tenants: they share the "
            "engine evenly, and no prefix or answer.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="A name beside localhost under which clients may call the server.",
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(metavar="cpu|cuda", help="Of the engine.", envvar="AGENTRT_DEVICE")
    ] = "cpu",
    dtype: Annotated[
        str, typer.Option(metavar="auto|float32|bfloat16|float16", help="Type of the weights.")
    ] = "",
    threads: Annotated[
        int,
        typer.Option(
            "--threads",
            callback=at_most_cores,
            help="Of our engine; 0 lets it choose, else at most one a core.",
        ),
    ] = 0,
    kv_tokens: Annotated[
        int,
        typer.Option(min=0, help="Tokens that the KV memory holds; 0 sizes it by what is free."),
    ] = 0,
    policy: Annotated[
        str, typer.Option(metavar="fcfs|lpm|plas|rwa", help="Order of requests.")
    ] = "fcfs",
    adapter: Adapters = None,
    weights: Weights = "",
    activations: Activations = "",
    kv_cache_dtype: KvCacheDtype = "",
    expert_memory: ExpertMemory = "",
    speculate: SpeculateTokens = None,
    draft_model: DraftModel = None,
    draft_texts: Annotated[
        str,
        typer.Option(
            "--draft-texts",
            metavar="all|own",
            help="Texts that guesses repeat: all, or a request's own alone.",
        ),
    ] = "all",
    replay: Annotated[
        Path | None,
        typer.Option(
            "--replay",
            metavar="FILE",
            help="For benchmarks: recorded outputs, written in place of sampled tokens.",
        ),
    ] = None,
    requests: Annotated[
        int, typer.Option(min=1, help="Most under way at once; more are refused for the moment.")
    ] = 256,
    content: Annotated[
        str,
        typer.Option(
            "--content",
            metavar="transcript|spans|off",
            envvar="AGENTRT_CONTENT",
            help="What is kept of prompts and answers: a file a request, also spans, or nothing.",
        ),
    ] = "",
) -> int:
    """Serve a model to clients of the chat completions API; each request is a run of its own."""
    from agentrt.base.engine_extra import require_packages

    require_packages("agentrt serve")
    import anyio

    from agentrt.app import open_runtime
    from agentrt.base.config import SchedulerConfig
    from agentrt.base.engines.kept_content import content_config
    from agentrt.base.expert_memory import with_expert_memory
    from agentrt.cli.progress_display import waiting
    from agentrt.cli.served_engine import served_engine, served_name
    from agentrt.cli.server_log import log_with_traces
    from agentrt.serve import RequestSpans, ServeConfig
    from agentrt.serve import serve as run
    from agentrt.telemetry import collector_of, transcripts_of

    for flag, given in (("device", device), ("dtype", dtype)):
        _check_choice(flag, given)
    engine = served_engine(
        checkpoint or model,
        os.environ,
        device=device,
        dtype=dtype,
        threads=threads,
        kv_tokens=kv_tokens,
    )
    engine = with_formats(engine, weights, activations, kv_cache_dtype)
    engine = with_expert_memory(engine, expert_memory)
    engine = with_drafts(engine, speculate, draft_model)
    _check_choice("draft-texts", draft_texts)
    engine = replace(engine, draft_texts=draft_texts, replay=replay)  # type: ignore[arg-type]
    _check_choice("policy", policy)
    name = name or served_name(engine)
    engine = _with_adapters(engine, adapter or (), name)
    keys, hosts = _keys(api_key or ()), tuple(allow_host or ())
    log_with_traces()
    config = ServeConfig(name, host, port, keys, requests, hosts=hosts)
    kept_content = content_config(os.environ, content)
    collector = collector_of(os.environ, kept_content.keep)
    kept = (collector, transcripts_of(os.environ, kept_content))
    observers = [one for one in kept if one is not None]

    starting = ExitStack()

    def tell(url: str) -> None:
        starting.close()
        freeze_gc()
        typer.echo(f"{name} is served at {url}")

    opening = open_runtime(
        engine=engine,
        models={},
        observers=observers,
        content=kept_content.keep,
        scheduler=SchedulerConfig(policy=policy),  # type: ignore[arg-type]
    )
    with ExitStack() as stack:
        for one in observers:
            stack.callback(one.close)
        stack.enter_context(starting).enter_context(waiting("starting the engine"))
        # The quicker loop where it is installed, as uvicorn chooses.
        options = {"use_uvloop": find_spec("uvloop") is not None}
        spans = RequestSpans(collector)
        anyio.run(lambda: run(config, opening, tell=tell, spans=spans), backend_options=options)
    return 0


def _with_adapters(engine: EngineConfig, given: Sequence[str], name: str) -> EngineConfig:
    """The engine with its adapters, each of which clients name as they name the model."""
    if not given:
        return engine
    from agentrt.base.adapter_choice import check_adapters, with_adapters

    engine = with_adapters(engine, given)
    check_adapters(engine)
    if any(one.name == name for one in engine.adapters):
        raise UsageError(
            f"the adapter {name!r} has the name of the model",
            hint="give the model another one: --name",
        )
    return engine


def _check_choice(flag: str, given: str) -> None:
    known = _CHOICES[flag]
    if given not in known:
        names = ", ".join(filter(None, known))
        raise UsageError(f"--{flag} {given!r} is unknown", hint=f"give {names}")


_CHOICES = {
    "device": ("cpu", "cuda"),
    "dtype": ("", "auto", "float32", "bfloat16", "float16"),
    "draft-texts": ("all", "own"),
    "policy": ("fcfs", "lpm", "plas", "rwa"),
}


def _keys(references: Sequence[str]) -> tuple[ApiKey, ...]:
    """The keys that `env:NAME` refers to; keys themselves stay out of arguments."""
    from agentrt.serve import ApiKey

    names = [key_name(reference, "--api-key") for reference in references]
    return tuple(ApiKey(name, os.environ[name]) for name in names)

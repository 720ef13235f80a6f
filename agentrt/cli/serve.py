"""`agentrt serve`: chat completions over an embedded engine."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from agentrt.base.cpu_cores import at_most_cores
from agentrt.base.errors import UsageError
from agentrt.base.gc_freeze import freeze_gc


def serve(
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
        str | None,
        typer.Option("--api-key", metavar="env:NAME", help="The variable with clients' key."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.", envvar="AGENTRT_DEVICE")] = "cpu",
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
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
    policy: Annotated[str, typer.Option(help="Order of waiting requests.")] = "fcfs",
    requests: Annotated[
        int, typer.Option(min=1, help="Most under way at once; more are told to come back.")
    ] = 256,
) -> int:
    """Serve a model to clients of the chat completions API; each request stands for itself."""
    import anyio

    from agentrt.serve import serve as run

    config = _config(
        model=model,
        name=name,
        host=host,
        port=port,
        key=_key(api_key),
        device=device,
        dtype=dtype,
        threads=threads,
        kv_tokens=kv_tokens,
        policy=policy,
        requests=requests,
    )

    def tell(url: str) -> None:
        freeze_gc()
        typer.echo(f"{config.name} is served at {url}")

    anyio.run(lambda: run(config, tell=tell))
    return 0


def _config(**given: Any) -> Any:
    """What is to be served, and how."""
    from agentrt import embedded
    from agentrt.base.config import EngineConfig
    from agentrt.serve import ServeConfig

    for flag, known in _CHOICES.items():
        if given[flag] not in known:
            raise UsageError(
                f"--{flag} {given[flag]!r} is unknown", hint=f"give {', '.join(known)}"
            )
    engine = EngineConfig(
        model_path=Path(given["model"]) if given["model"] else embedded.path(),
        device=given["device"],
        dtype=given["dtype"],
        threads=given["threads"],
        policy=given["policy"],
    )
    pages = -(-given["kv_tokens"] // engine.page_tokens)
    name = given["name"] or ("" if given["model"] else "embedded")
    engine = replace(engine, kv_pages=pages)
    return ServeConfig(engine, name, given["host"], given["port"], given["key"], given["requests"])


_CHOICES = {
    "device": ("cpu", "cuda"),
    "dtype": ("auto", "float32", "bfloat16", "float16"),
    "policy": ("fcfs", "lpm", "plas", "rwa"),
}


def _key(reference: str | None) -> str:
    """The key that `env:NAME` refers to; keys themselves stay out of arguments."""
    if reference is None:
        return ""
    scheme, _, name = reference.partition(":")
    if scheme != "env" or not name:
        raise UsageError("--api-key is not a reference", hint="give env:NAME")
    if not os.environ.get(name):
        raise UsageError(f"the variable {name} holds no key", hint=f"export {name}=...")
    return os.environ[name]

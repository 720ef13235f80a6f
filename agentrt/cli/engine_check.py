"""`agentrt doctor --engine`: whether a server answers, by its list of models, which is free."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from typing import Any

import anyio

from agentrt.base.clock import MonotonicClock
from agentrt.base.engine_selection import named_engine
from agentrt.base.engines.engine_file import engine_file
from agentrt.base.engines.remote_engine_config import RemoteEngineConfig
from agentrt.base.errors import AgentrtError
from agentrt.cli.progress_display import waiting
from agentrt.cli.server_report import examine_server

SHOWN_MODELS = 8


def print_check(engine: str, model: str, api_key: str | None, *, probe: bool, as_json: bool) -> int:
    """Print what is found of an engine, of a fleet for each of its servers.

    Args:
        engine: Name or URL of the engine.
        model: Name of the model; "" takes that of the settings.
        api_key: `env:NAME`, the variable that holds the key; None takes that of the settings.
        probe: Whether to find out by requests what it enforces, too.
        as_json: Whether to print one JSON object.

    Returns:
        The exit code: the largest of the errors, or 0.

    Raises:
        UsageError: There is no such engine.
    """
    config = named_engine(engine, engine_file(os.environ))
    servers = [one.engine for one in config.workers] if config.is_fleet else [config]
    looked: list[tuple[dict[str, Any], int]] = []
    for one in servers:
        server = replace(one, model=model or one.model, key=api_key or one.key)
        with waiting(f"asking {server.url}", quiet=as_json):
            looked.append(anyio.run(examine_server if probe else check, server))
    if as_json:
        reports = [found for found, _ in looked]
        value = {"servers": reports} if config.is_fleet else reports[0]
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    else:
        text = "\n\n".join(
            "\n".join(f"{name:<14} {shown(value)}" for name, value in found.items())
            for found, _ in looked
        )
    sys.stdout.write(text + "\n")
    return max(code for _, code in looked)


async def check(config: RemoteEngineConfig) -> tuple[dict[str, Any], int]:
    """Findings about an engine by name, and the exit code.

    Args:
        config: Settings of the engine.
    """
    from agentrt.remote import listed_models

    kind = config.described
    found: dict[str, Any] = {
        "engine": config.name or config.url,
        "kind": f"{config.kind}: {kind.title}",
        "protocol": kind.protocol,
        "address": config.url,
        "key": config.key or "none",
        "enforces": list(kind.constraints) if not kind.is_probed else ["unknown before its start"],
    }
    clock = MonotonicClock()
    begun_s = clock.now_s()
    try:
        names = await listed_models(config)
    except AgentrtError as error:
        return found | {"answer": error.message, "fix": error.hint}, error.exit_code
    found |= {"answer": f"in {clock.now_s() - begun_s:.2f} s", "models": names}
    if config.model and names and config.model not in names:
        return found | {"fix": f"it does not list {config.model!r}: correct the model"}, 3
    return found, 0


def shown(value: Any) -> str:
    """A value for people."""
    if not isinstance(value, list):
        return str(value)
    more = f" and {len(value) - SHOWN_MODELS} more" if len(value) > SHOWN_MODELS else ""
    return ", ".join(value[:SHOWN_MODELS]) + more or "none"

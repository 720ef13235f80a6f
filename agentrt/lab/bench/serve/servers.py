"""Servers of the embedded model, and plain uvicorn, each a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from agentrt import embedded
from agentrt.base.config import EngineConfig
from agentrt.lab.arms.server_process import ServerPlan, ServerProcess
from agentrt.lab.bench.serve.half_open import FILES

NAME = "embedded"
KEYS = {"AGENTRT_BENCH_KEY_CROWD": "crowd-secret", "AGENTRT_BENCH_KEY_NEW": "new-secret"}
"""API keys of a server with keys, by the variable that has each."""
_KV_TOKENS = 65_536


def engine_config() -> EngineConfig:
    """The engine of `agentrt serve` with the flags of the plan."""
    page_tokens = EngineConfig(embedded.path()).page_tokens
    return EngineConfig(embedded.path(), kv_pages=_KV_TOKENS // page_tokens, policy="fcfs")


def our_plan(*, keys: bool = False, few_files: bool = False) -> ServerPlan:
    """`agentrt serve`.

    Args:
        keys: Whether requests have to bring one of `KEYS`.
        few_files: Whether the server may open no more than `FILES` files.
    """
    given = [part for name in KEYS for part in ("--api-key", f"env:{name}")] if keys else []
    limit = ("sh", "-c", f'ulimit -n {FILES}; exec "$@"', "sh") if few_files else ()
    serve = (sys.executable, "-P", "-m", "agentrt", "serve", "--port", "{port}")
    command = (*limit, *serve, "--kv-tokens", str(_KV_TOKENS), *given)
    secret = next(iter(KEYS.values())) if keys else ""
    headers = {"authorization": f"Bearer {secret}"} if keys else {}
    return ServerPlan("ours", "", command, NAME, {}, env=KEYS if keys else {}, headers=headers)


def plain_plan() -> ServerPlan:
    """Plain uvicorn with the least application, and the quickest loop and parser installed."""
    app = f"{__name__.rpartition('.')[0]}.plain_app:plain_app"
    flags = ("--log-level", "warning", "--no-access-log", "--lifespan", "off")
    command = (sys.executable, "-P", "-m", "uvicorn", app, "--port", "{port}", *flags)
    return ServerPlan("uvicorn", "", command, "plain", {})


@contextmanager
def port_of(plan: ServerPlan) -> Iterator[int]:
    """The port of a server that runs as long as the block."""
    server = ServerProcess(plan)
    try:
        yield urlsplit(server.url).port or 0
    finally:
        server.close()

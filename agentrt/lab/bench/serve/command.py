"""`agentrt bench serve`: latency, fairness and open connections of `agentrt serve`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import anyio
import typer

from agentrt import embedded
from agentrt.analysis.statistics import mean, spread
from agentrt.lab.bench.flags import ServeFlags
from agentrt.lab.bench.serve.crowd import ClientGroup, Crowd, CrowdSample
from agentrt.lab.bench.serve.direct_engine import direct_engine
from agentrt.lab.bench.serve.half_open import FILES, CanarySample, HalfOpen
from agentrt.lab.bench.serve.latency import LatencyPairs, measure_chat, measure_health
from agentrt.lab.bench.serve.questions import QuestionMaker
from agentrt.lab.bench.serve.servers import (
    KEYS,
    NAME,
    engine_config,
    our_plan,
    plain_plan,
    port_of,
)
from agentrt.lab.flags import check_known, names
from agentrt.lab.progress import WorkPace, log
from agentrt.lab.result_file import header, machine, write_json

Json = dict[str, Any]
SCHEMA = "agentrt.bench.serve/1"
_HALF_OPEN = 300
_NEWCOMER_REQUESTS = 10


def run_serve_bench(flags: ServeFlags) -> None:
    """Measure part by part; each prints a line, and the file is written anew after it.

    Raises:
        UsageError: A flag is out of range.
        BenchFailed: A server does not work.
    """
    parts = names(flags.parts)
    check_known("--parts", parts, tuple(_PARTS))
    found: Json = {**header(SCHEMA), "machine": machine(), "parts": {}}
    pace = WorkPace("parts", len(parts))
    for part in parts:
        before = os.getloadavg()[0]
        result, line = _PARTS[part](flags)
        found["parts"][part] = {**result, "load_average": [before, os.getloadavg()[0]]}
        typer.echo(f"{line}; load {before:.1f} to {os.getloadavg()[0]:.1f}")
        write_json(flags.json_path, found)
        pace.done(part)


def _health(flags: ServeFlags) -> tuple[Json, str]:
    log("health: starting both servers")
    with port_of(our_plan()) as ours, port_of(plain_plan()) as plain:
        pairs = anyio.run(measure_health, ours, plain, 10 * flags.pairs)
    line = (
        f"health check: p50 {pairs.served_p50_s * 1e6:.0f} us, plain uvicorn "
        f"{pairs.floor_p50_s * 1e6:.0f} us, ratio {pairs.ratio:.2f} of {len(pairs.served_s)} pairs"
    )
    return _latency(pairs), line


def _chat(flags: ServeFlags) -> tuple[Json, str]:
    log("chat: starting the server and an engine beside it")

    async def measured(port: int) -> LatencyPairs:
        async with direct_engine(engine_config()) as engine:
            return await measure_chat(port, engine, _maker(), flags.pairs)

    with port_of(our_plan()) as port:
        pairs = anyio.run(measured, port)
    line = (
        f"chat of 200 + 1 tokens: p50 {pairs.served_p50_s * 1e3:.2f} ms, Backend.submit "
        f"{pairs.floor_p50_s * 1e3:.2f} ms, {pairs.added_s * 1e3:.2f} ms more "
        f"of {len(pairs.served_s)} pairs"
    )
    return _latency(pairs), line


def _keys(flags: ServeFlags) -> tuple[Json, str]:
    crowd, newcomer = KEYS.values()
    return _crowd("keys", flags, ClientGroup(key=crowd), ClientGroup(key=newcomer))


def _addresses(flags: ServeFlags) -> tuple[Json, str]:
    return _crowd("addresses", flags, ClientGroup(), ClientGroup(source="127.0.0.2"))


def _users(flags: ServeFlags) -> tuple[Json, str]:
    return _crowd("users", flags, ClientGroup(user="crowd"), ClientGroup(user="newcomer"))


def _crowd(
    name: str, flags: ServeFlags, crowd: ClientGroup, newcomer: ClientGroup
) -> tuple[Json, str]:
    log(f"{name}: {flags.clients} clients of one owner, and one newcomer")
    with port_of(our_plan(keys=bool(crowd.key))) as port:
        clients = Crowd(port, _maker())
        sample: CrowdSample = anyio.run(
            clients.measure, flags.clients, crowd, newcomer, _NEWCOMER_REQUESTS
        )
    crowd_ms, newcomer_ms = mean(sample.crowd_s) * 1e3, mean(sample.newcomer_s) * 1e3
    line = (
        f"{name}: first token of a newcomer after {newcomer_ms:.0f} ms, of {flags.clients} others "
        f"after {crowd_ms:.0f} ms, ratio {sample.ratio:.3f} (worst {max(sample.ratios):.3f}); "
        f"{sample.statuses}"
    )
    return {**asdict(sample), "ratio": sample.ratio, "worst_ratio": max(sample.ratios)}, line


def _half_open(flags: ServeFlags) -> tuple[Json, str]:
    log(f"half-open: {_HALF_OPEN} connections for a server of {FILES} files")
    with port_of(our_plan(few_files=True)) as port:
        halves = HalfOpen(port, _maker())
        sample: CanarySample = anyio.run(halves.measure, _HALF_OPEN, flags.seconds)
    line = (
        f"half-open: {len(sample.waits_s)} of {sample.asked} answered beside {_HALF_OPEN} "
        f"connections (held at once: {min(sample.open_at_once)} to "
        f"{max(sample.open_at_once)}), waits {_in_ms(sample.waits_s)}; {sample.refusals}"
    )
    return asdict(sample), line


def _latency(pairs: LatencyPairs) -> Json:
    return {
        "served_s": spread(pairs.served_s),
        "floor_s": spread(pairs.floor_s),
        "ratio": pairs.ratio,
        "added_s": pairs.added_s,
    }


def _in_ms(waits_s: Sequence[float]) -> str:
    found = spread(waits_s)
    return f"p50 {found['p50'] * 1e3:.0f}, worst {found['max'] * 1e3:.0f} ms" if found else "none"


def _maker() -> QuestionMaker:
    return QuestionMaker(embedded.path(), NAME)


_PARTS: Mapping[str, Callable[[ServeFlags], tuple[Json, str]]] = {
    "health": _health,
    "chat": _chat,
    "keys": _keys,
    "addresses": _addresses,
    "users": _users,
    "half-open": _half_open,
}

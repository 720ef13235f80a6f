"""`agentrt fleet`: the servers of a fleet, and those among them that get no new requests."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentrt.base.engine_selection import named_engine
from agentrt.base.engines.engine_file import engine_file
from agentrt.base.engines.remote_engine_config import RemoteEngineConfig, base_url
from agentrt.base.errors import EngineUnavailable, UsageError
from agentrt.base.text_columns import aligned
from agentrt.cli.completion import engine_names

if TYPE_CHECKING:
    from agentrt.remote.fleet.fleet_status import WorkerStatus

fleet = typer.Typer(help="Several servers as one engine.", no_args_is_help=True)

COLUMNS = ("server", "state", "running", "waiting", "kv", "slots", "health", "models")

EngineFlag = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="NAME|URL,URL",
        help="The fleet; without it, those of agentrt.toml.",
        autocompletion=engine_names,
    ),
]
Address = Annotated[str, typer.Argument(metavar="ADDRESS", help="Address of a server.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]


@fleet.command("status")
def status(engine: EngineFlag = "", as_json: AsJson = False) -> int:
    """Ask each server for its health, models and load. No request is paid for."""
    import anyio

    fleets = _fleets(engine)
    pairs = [(one, anyio.run(_workers_of, one)) for one in fleets]
    if as_json:
        shown = {_name(one): [row_of(worker) for worker in workers] for one, workers in pairs}
        sys.stdout.write(json.dumps(shown, ensure_ascii=False, separators=(",", ":")) + "\n")
    else:
        lines = [line for pair in pairs for line in lines_of(*pair)]
        sys.stdout.write("\n".join(lines) + "\n")
    some_serve = all(any(worker.is_up for worker in workers) for _, workers in pairs)
    return 0 if some_serve else EngineUnavailable.exit_code


@fleet.command("drain")
def drain(address: Address, engine: EngineFlag = "") -> int:
    """Send a server no new requests; runs under way in any process stop using it at once."""
    return _note(address, engine, drained=True)


@fleet.command("undrain")
def undrain(address: Address, engine: EngineFlag = "") -> int:
    """Send a drained server requests again."""
    return _note(address, engine, drained=False)


def row_of(worker: WorkerStatus) -> dict[str, Any]:
    """One server by name, for JSON."""
    load, capacity = worker.load, worker.capacity
    kv_tokens = (load.kv_tokens if load else 0) or (capacity.kv_tokens if capacity else 0)
    return {
        "address": worker.address,
        "kind": worker.kind,
        "weight": worker.weight,
        "up": worker.is_up,
        "drained": worker.is_drained,
        "why": worker.why,
        "health_ms": None if worker.answer_s is None else round(1e3 * worker.answer_s, 1),
        "models": list(worker.models),
        "running": load.running if load else None,
        "waiting": load.waiting if load else None,
        "kv_share": load.kv_share if load else None,
        "kv_tokens": kv_tokens or None,
        "slots": (capacity.slots if capacity else 0) or None,
        "kv_events": worker.kv_events or None,
    }


def lines_of(engine: RemoteEngineConfig, workers: Sequence[WorkerStatus]) -> list[str]:
    """The servers of a fleet as a table."""
    from agentrt.remote.fleet.fleet_status import model_complaint

    shown = map(_shown, workers)
    table = aligned([COLUMNS, *([row[name] for name in COLUMNS] for row in shown)])
    reasons = [f"{one.address}: {one.why}" for one in workers if one.why]
    reasons += [f"{one.address}: KV events {one.kv_events}" for one in workers if one.kv_events]
    complaint = model_complaint(workers, engine.model)
    return [_name(engine), *table, *reasons, *([complaint] if complaint else [])]


def _shown(worker: WorkerStatus) -> dict[str, str]:
    row = row_of(worker)
    state = "up" if worker.is_up else "down"
    health_ms, share = row["health_ms"], row["kv_share"]
    return {
        "server": worker.address,
        "state": f"{state}, drained" if worker.is_drained else state,
        "running": _count(row["running"]),
        "waiting": _count(row["waiting"]),
        "kv": "-" if share is None else f"{share:.0%}",
        "slots": _count(row["slots"]),
        "health": "-" if health_ms is None else f"{health_ms:.0f} ms",
        "models": ", ".join(worker.models) or "-",
    }


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


async def _workers_of(engine: RemoteEngineConfig) -> list[WorkerStatus]:
    from agentrt.base.clock import MonotonicClock
    from agentrt.remote.fleet.drain_list import DrainList
    from agentrt.remote.fleet.fleet_status import fleet_status

    return await fleet_status(engine, DrainList.of(os.environ).urls(), MonotonicClock())


def _note(address: str, engine: str, *, drained: bool) -> int:
    """Put a server on the list of drained ones, or take it off."""
    from agentrt.remote.fleet.drain_list import DrainList

    url = base_url(address, "ADDRESS: ")
    known = [member.engine.url for one in _fleets(engine) for member in one.workers]
    if url not in known:
        raise UsageError(
            f"{url} is no server of {engine or 'a fleet of agentrt.toml'}",
            hint=f"give one of {', '.join(known)}",
        )
    DrainList.of(os.environ).note(url, drained=drained)
    what = "gets no new requests" if drained else "gets requests again"
    sys.stdout.write(f"{url} {what}\n")
    return 0


def _fleets(engine: str) -> list[RemoteEngineConfig]:
    """The fleet that is named, or all of agentrt.toml.

    Raises:
        UsageError: There is none, or the engine has one server.
    """
    file = engine_file(os.environ)
    if engine:
        found = named_engine(engine, file)
        if not found.is_fleet:
            raise UsageError(
                f"engine {engine!r} has one server",
                hint="agentrt doctor --engine looks at one server",
            )
        return [found]
    fleets = [one for one in file.engines.values() if one.is_fleet]
    if not fleets:
        where = f"{file.path} names none" if file.path else "there is no agentrt.toml here or above"
        raise UsageError(
            f"no fleet: {where}",
            hint="give --engine URL,URL; docs/engines.md shows how to write one",
        )
    return fleets


def _name(engine: RemoteEngineConfig) -> str:
    return engine.name or ", ".join(member.engine.url for member in engine.workers)

"""The servers of a fleet at one instant, asked from outside of any run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any

import anyio

from agentrt.base.clock import Clock
from agentrt.base.engines.engine_kind import KindLoad
from agentrt.base.engines.remote_engine_config import FleetMember, RemoteEngineConfig
from agentrt.base.errors import AgentrtError
from agentrt.base.record import record
from agentrt.remote.admission.engine_load import (
    EngineCapacity,
    EngineLoad,
    capacity_in,
    load_in,
)
from agentrt.remote.http import Http
from agentrt.remote.opening.model_list import listed_models

LOOK_S = 5.0
"""Time after which a server that has not answered all questions counts as silent."""


@record
class WorkerStatus:
    """One server of a fleet.

    Attributes:
        address: Base address of its API.
        kind: Kind of the server.
        weight: Share of the work, by those of the others.
        is_drained: Whether it gets no new requests.
        answer_s: Time that its health check took, in seconds; None if it did not answer.
        why: Reason for which it takes no requests; "" if it does.
        models: Models that it lists; empty if it lists none.
        load: Load of the server; None if it does not show any.
        capacity: Capacity of the server; None if it does not say.
        kv_events: Whether its KV events arrive, in words; "" if none are asked for.
    """

    address: str
    kind: str
    weight: float
    is_drained: bool
    answer_s: float | None = None
    why: str = ""
    models: tuple[str, ...] = ()
    load: EngineLoad | None = None
    capacity: EngineCapacity | None = None
    kv_events: str = ""

    @property
    def is_up(self) -> bool:
        """Whether it takes requests; one that is drained may."""
        return not self.why


async def fleet_status(
    engine: RemoteEngineConfig, drained: frozenset[str], clock: Clock, look_s: float = LOOK_S
) -> list[WorkerStatus]:
    """Ask every server of an engine at once; one address is a fleet of one.

    Args:
        engine: Settings of the engine.
        drained: Base addresses that are drained beside those of the settings.
        clock: Clock of the answers.
        look_s: Time that a server has, in seconds.
    """
    members = engine.workers if engine.is_fleet else (FleetMember(engine),)
    closed = drained | set(engine.drained_urls if engine.is_fleet else ())
    found: dict[int, WorkerStatus] = {}

    async def ask(at: int, member: FleetMember) -> None:
        found[at] = await _status(member, member.engine.url in closed, clock, look_s)

    async with anyio.create_task_group() as tasks:
        for at, member in enumerate(members):
            tasks.start_soon(ask, at, member)
    return [found[at] for at in range(len(members))]


def model_complaint(workers: Sequence[WorkerStatus], model: str) -> str:
    """The sentence about servers that do not serve the same model; "" if there is none.

    Args:
        workers: The servers.
        model: Name of the model in the settings; "" is the only one that a server lists.
    """
    listing = {one.address: one.models for one in workers if one.models}
    if model:
        lacking = [address for address, models in listing.items() if model not in models]
        return f"{', '.join(lacking)} does not list {model!r}" if lacking else ""
    if len(set(listing.values())) < 2:
        return ""
    shown = "; ".join(f"{address}: {', '.join(models)}" for address, models in listing.items())
    return f"the servers list different models ({shown})"


async def _status(
    member: FleetMember, is_drained: bool, clock: Clock, look_s: float
) -> WorkerStatus:
    engine = member.engine
    facts: dict[str, Any] = {}
    begun_s = clock.now_s()
    try:
        with anyio.fail_after(look_s):
            async with aclosing(Http(engine, clock=clock)) as http:
                await http.check_life(engine.described.health)
                facts["answer_s"] = clock.now_s() - begun_s
                facts["models"] = tuple(await listed_models(engine))
                if engine.described.load is not None:
                    facts |= await _load(http, engine.described.load)
        if engine.kv_events is not None:
            from agentrt.remote.fleet.kv_events_look import events_in_words

            facts["kv_events"] = await events_in_words(engine.kv_events.at(engine.url))
    except AgentrtError as error:
        facts["why"] = error.message
    except TimeoutError:
        facts["why"] = f"no answer within {look_s:g} s"
    return WorkerStatus(engine.url, engine.kind, member.weight, is_drained, **facts)


async def _load(http: Http, door: KindLoad) -> Mapping[str, EngineLoad | EngineCapacity]:
    """Load and capacity of a server, as far as it shows them."""
    found: dict[str, EngineLoad | EngineCapacity] = {}
    if door.capacity_path:
        with suppress(AgentrtError, ValueError, RecursionError):
            found["capacity"] = capacity_in(json.loads(await http.look(door.capacity_path)), door)
    with suppress(AgentrtError):
        text = (await http.look(door.metrics_path)).decode("utf-8", "replace")
        if (load := load_in(text, door)) is not None:
            found["load"] = load
    return found

"""Looks at the load of a server, at a bounded rate, while requests are with it.

No request waits for a look. A look that fails changes nothing, and the next one comes later.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import anyio

from agentrt.base.engines.engine_kind import EngineKind, KindLoad, load_door
from agentrt.base.errors import AgentrtError
from agentrt.remote.admission.engine_load import capacity_in, load_in
from agentrt.remote.admission.request_pacer import RequestPacer
from agentrt.remote.admission.server_room import ServerRoom
from agentrt.remote.http import Http
from agentrt.remote.task_ends import end_tasks

LOOK_S = 0.5
"""Time between two looks."""

FIRST_LOOK_S = 0.1
"""Time between two looks while requests wait and the room is yet to be found."""

SLOWEST_S = 60.0
"""Time between two looks of which the former ones failed."""


class LoadWatch:
    """The looks at one server.

    Args:
        http: The server.
        door: Where it shows its load.
        pacer: Counts our requests with it.
        on_look: Called with the room after each look.
    """

    def __init__(
        self,
        http: Http,
        door: KindLoad,
        pacer: RequestPacer,
        on_look: Callable[[ServerRoom], None],
    ) -> None:
        self.room = ServerRoom()
        self._http = http
        self._door = door
        self._pacer = pacer
        self._on_look = on_look
        self._task: asyncio.Task[None] | None = None
        self._knows_capacity = not door.capacity_path
        self._pause_s = LOOK_S

    def start(self) -> None:
        """Look until no request is with the server; a watch that is on goes on."""
        if self._task is None:
            self._task = asyncio.create_task(self._watch())

    async def aclose(self) -> None:
        """Look no more."""
        if self._task is not None:
            await end_tasks([self._task])

    async def _watch(self) -> None:
        try:
            while True:
                await self.look()
                await anyio.sleep(self._pause_s)
                if not (self._pacer.in_flight or self._pacer.warm_ups):
                    return
        finally:
            self._task = None

    async def look(self) -> None:
        """Look once."""
        room, found = self.room, False
        if not self._knows_capacity:
            described = await self._described()
            if described is not None:
                room.note_capacity(capacity_in(described, self._door))
                self._knows_capacity = found = True
        text = await self._text(self._door.metrics_path)
        load = None if text is None else load_in(text, self._door)
        if load is not None:
            # The figures may be older than the last end, or newer than the last beginning.
            room.note_load(load, self._pacer.take_most_in_flight())
            found = True
        else:
            room.note_unknown()
        if found:
            is_short = room.is_first and self._pacer.in_flight >= room.requests
            self._pause_s = FIRST_LOOK_S if is_short else LOOK_S
        else:
            self._pause_s = min(SLOWEST_S, 2 * self._pause_s)
        self._on_look(room)

    async def _described(self) -> Any:
        text = await self._text(self._door.capacity_path)
        try:
            return None if text is None else json.loads(text)
        except (ValueError, RecursionError):
            return None

    async def _text(self, path: str) -> str | None:
        """The answer of a door; None if there is none."""
        try:
            data = await self._http.look(path)
        except AgentrtError:
            return None
        return data.decode("utf-8", "replace")


def load_watch(
    http: Http,
    kind: EngineKind,
    family: str,
    pacer: RequestPacer,
    on_look: Callable[[ServerRoom], None],
) -> LoadWatch | None:
    """The looks at a server; None if servers of its kind and family do not show their load.

    Args:
        http: The server.
        kind: Kind of the server.
        family: Family that a probe has shown, or "".
        pacer: Counts our requests with it.
        on_look: Called with the room at once, and after each look.
    """
    door = kind.load or load_door(family)
    if door is None:
        return None
    watch = LoadWatch(http, door, pacer, on_look)
    on_look(watch.room)
    return watch

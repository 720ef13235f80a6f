"""One server of a fleet: its backend, its health, and the requests that it has."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from typing import Literal

import anyio

from agentrt.base.errors import AgentrtError
from agentrt.base.ids import RequestId
from agentrt.protocol.backend import Backend
from agentrt.remote.admission.request_pacer import RequestPacer
from agentrt.remote.backend import RemoteBackend

WorkerHealth = Literal["opening", "up", "down", "unfit"]
"""`opening`: it has not answered yet. `unfit`: it lacks something that the others have."""


@dataclass(slots=True, eq=False)
class FleetWorker:
    """One server of a fleet.

    Attributes:
        name: Address of the server.
        weight: Share of the work, by those of the others.
        remote: The server.
        backend: The server with its prices; the same if it has none.
        pacer: Rates and room of the server.
        model: Name of the model in its settings, or "".
        health: Whether it takes requests.
        is_open: Whether it has been opened once.
        is_drained: Whether it gets no new requests.
        why: Error that made it down or unfit, or None.
        requests: Requests that it has.
        owes_since_s: Instant of the first request sent to it since its last bytes, on the event
            loop's clock.
        kv_tokens: KV memory that our runs may count on there; 0.0 if unknown.
        is_suspect: Whether it has lost a request since it was last asked.
        wake: Set when something has changed that its keeper has to look at.
    """

    name: str
    weight: float
    remote: RemoteBackend
    backend: Backend
    pacer: RequestPacer
    model: str = ""
    health: WorkerHealth = "opening"
    is_open: bool = False
    is_drained: bool = False
    why: AgentrtError | None = None
    requests: set[RequestId] = field(default_factory=set)
    owes_since_s: float = -math.inf
    kv_tokens: float = 0.0
    is_suspect: bool = False
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def in_service(self) -> bool:
        """Whether it gets new requests."""
        return self.health == "up" and not self.is_drained

    @property
    def warms(self) -> bool:
        """Whether its prefix cache may be warmed ahead."""
        return self.is_open and self.backend.capabilities.prefills_ahead

    @property
    def room(self) -> float:
        """Requests that it may still be sent now."""
        taken = max(len(self.requests), self.pacer.in_flight)
        return max(1.0, self.pacer.window) - taken

    @property
    def quiet_since_s(self) -> float:
        """Instant since which nothing has come from it, on the event loop's clock."""
        return max(self.remote.heard_at_s, self.owes_since_s)

    def take(self, request_id: RequestId) -> None:
        """Note a request that is sent to it.

        A further one does not begin its silence anew: else a server that hangs would never be found
        out as long as it is sent more.
        """
        if self.remote.heard_at_s >= self.owes_since_s:
            self.owes_since_s = anyio.current_time()
        self.requests.add(request_id)
        self.wake.set()

    def ready_at_s(self, now_s: float, tokens: float) -> float:
        """Instant at which it may be sent a request; infinite if something has to end first."""
        if not self.in_service or self.room < 1:
            return math.inf
        return self.pacer.ready_at_s(now_s, tokens)

    def state(self) -> str:
        """State in words, for messages."""
        if self.health == "up":
            return "drained" if self.is_drained else "up"
        return self.health if self.why is None else f"{self.health}: {self.why.message}"

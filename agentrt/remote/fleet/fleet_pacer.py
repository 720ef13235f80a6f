"""The pacer of a fleet: a request may be sent once any worker may be sent one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentrt.remote.admission.request_pacer import HeldBackBy, RequestPacer
from agentrt.remote.fleet.fleet_worker import FleetWorker


class FleetPacer(RequestPacer):
    """The rates and the room of all workers together; each has a pacer of its own.

    Args:
        workers: The workers.
    """

    def __init__(self, workers: Sequence[FleetWorker]) -> None:
        super().__init__()
        self._workers = workers

    @property
    def window(self) -> float:
        """Requests that may be in flight at once now."""
        return sum(one.pacer.window for one in self._workers if one.in_service)

    @property
    def full_by(self) -> HeldBackBy:
        """Cause of a wait for something to change."""
        return "in_flight" if any(one.in_service for one in self._workers) else "outage"

    def ready_at_s(self, now_s: float, tokens: float) -> float:
        """Instant at which some worker may be sent a request; infinite if none is in service."""
        return min((one.ready_at_s(now_s, tokens) for one in self._workers), default=math.inf)

    def refuse(self, now_s: float, sent_at_s: float, wait_s: float) -> None:
        """Do nothing: the pacer of the worker that refused has noted it."""

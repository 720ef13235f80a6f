"""The way of one request through a fleet."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from agentrt.base.errors import EngineDied
from agentrt.protocol.backend import GenerateRequest
from agentrt.protocol.step_output import End, Ledger
from agentrt.remote.admission.request_turn import RequestTurn
from agentrt.remote.fleet.fleet_worker import FleetWorker
from agentrt.remote.fleet.worker_retries import WorkerFault, WorkerRetries
from agentrt.remote.retries import Retries
from agentrt.scheduler.placement.place import Placement

_GONE = ("EngineUnavailable", "EngineDied")


@dataclass(slots=True, eq=False)
class FleetRoute:
    """One request, over all workers that have had it.

    Attributes:
        request: The request, with its latest scheduling info.
        turn: Turn in the queue of the fleet.
        retries: Decides whether it is sent again after a fault.
        received_at_s: Instant at which the fleet had it.
        waits_since_s: Instant since which it has no worker.
        key: Prompt as bytes, for placement; b"" until it is needed.
        prompt_tokens: Estimated length of its prompt.
        task: Wait in the queue, or None.
        placement: The worker chosen last, with the reason.
        worker: The worker that has it, or None.
        attempt: Attempt there.
        leaves: Error for which it is taken from its worker, or None.
        wrote: Whether some of its output has been handed on.
        is_lost: Whether it was given back, and is awaited again.
        excluded: Workers that have just failed it.
        faults: Faults in a row.
        pause_s: Time before it joins the queue again.
        again: Whether it joins at the front.
        spent: Accounts of the attempts that failed.
    """

    request: GenerateRequest
    turn: RequestTurn
    retries: Retries
    received_at_s: float
    waits_since_s: float
    key: bytes = b""
    prompt_tokens: float = 0.0
    task: asyncio.Task[None] | None = None
    placement: Placement | None = None
    worker: FleetWorker | None = None
    attempt: WorkerRetries | None = None
    leaves: EngineDied | None = None
    wrote: bool = False
    is_lost: bool = False
    excluded: frozenset[str] = frozenset()
    faults: int = 0
    pause_s: float = 0.0
    again: bool = False
    spent: list[Ledger] = field(default_factory=list)

    def may_go_on(self, fault: WorkerFault, answered_at_s: float) -> bool:
        """Count a fault of its worker; whether another worker may have the request.

        Args:
            fault: The fault.
            answered_at_s: Instant at which any worker of the fleet last answered.
        """
        self.faults += 1
        if fault == "busy":
            return self.retries.note_busy(answered_at_s)
        return self.retries.note_loss() if fault == "loss" else self.retries.note_failure()

    def note_progress(self) -> None:
        """Forget its faults: it has got output."""
        self.faults, self.excluded = 0, frozenset()
        self.retries.note_progress()


def fault_of(route: FleetRoute, end: End) -> WorkerFault | None:
    """Fault of a worker that another one may make good; None if the request is over."""
    if end.reason == "cancelled" and route.leaves is not None:
        return "loss"
    if end.reason != "failed" or end.error is None or end.error.type not in _GONE:
        return None
    return None if route.attempt is None else route.attempt.fault

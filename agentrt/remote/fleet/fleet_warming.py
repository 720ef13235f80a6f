"""Warm-ups of a fleet: each goes to the worker that its prompt would be sent to now.

Placement counts the prefix as held there from then on, so that the prompt follows its warm-up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agentrt.base.clock import Clock
from agentrt.base.errors import EngineUnavailable, record_of
from agentrt.base.ids import RequestId
from agentrt.protocol.backend import GenerateRequest
from agentrt.protocol.event_queue import EventQueue
from agentrt.protocol.step_output import End, StepDone
from agentrt.remote.admission.admission_queue import AdmissionQueue
from agentrt.remote.fleet.fleet_placement import FleetPlacement
from agentrt.remote.fleet.fleet_worker import FleetWorker


class FleetWarming:
    """The warm-ups of one fleet.

    Args:
        placement: Chooses the worker.
        queue: The requests before the fleet: while any wait, nothing is warmed.
        workers: The workers by name.
        events: Takes the ends.
        clock: Clock of the placement.
    """

    def __init__(
        self,
        placement: FleetPlacement,
        queue: AdmissionQueue,
        workers: Mapping[str, FleetWorker],
        events: EventQueue,
        clock: Clock,
    ) -> None:
        self._placement = placement
        self._queue = queue
        self._workers = workers
        self._events = events
        self._clock = clock
        self._at: dict[RequestId, FleetWorker] = {}

    def submit(self, request: GenerateRequest) -> None:
        """Send a warm-up to a worker, or end it if none has room."""
        reason, worker = "requests wait to be sent", None
        if not self._queue.waiting:
            reason = "no worker that would get the prompt has room"
            name = self._placement.begin_warm_up(request, self._clock.now_s())
            worker = None if name is None else self._workers[name]
        if worker is None:
            error = record_of(EngineUnavailable(reason))
            end = End(request.request_id, "failed", error=error)
            self._events.put(StepDone(None, (), (end,)))
            return
        self._at[request.request_id] = worker
        worker.backend.submit(request)

    def cancel(self, request_id: RequestId) -> None:
        """Break a warm-up off; one that is not here is ignored."""
        if request_id in self._at:
            self._at[request_id].backend.cancel(request_id, "its prompt is sent")

    def take_ends(self, event: StepDone) -> StepDone:
        """An event of a worker without the ends of warm-ups, which are reported here."""
        own = tuple(end for end in event.ends if end.request_id in self._at)
        if not own:
            return event
        for end in own:
            del self._at[end.request_id]
            self._placement.end_warm_up(end)
        self._events.put(StepDone(None, (), own))
        return replace(event, ends=tuple(end for end in event.ends if end not in own))

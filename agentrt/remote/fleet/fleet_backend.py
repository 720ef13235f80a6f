"""`FleetBackend`: several servers as one engine, with one queue before them all.

A request waits in the order of the policy until some server has room, and has no server before
that. A server that dies, hangs or is cut off gets no new requests; those that it had are sent to
another one. If some of their output has been handed on, they are lost requests (`BackendDown`),
which the runtime submits again: that compares the second answer with the first.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio

from agentrt.base.clock import Clock
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import (
    AgentrtError,
    EngineDied,
    InternalError,
    record_of,
)
from agentrt.base.ids import RequestId
from agentrt.protocol.backend import (
    Capabilities,
    GenerateRequest,
    HoleFill,
    PrefixHint,
    SchedulingInfo,
)
from agentrt.protocol.event_queue import EventQueue
from agentrt.protocol.step_output import (
    Admission,
    BackendDown,
    BackendEvent,
    End,
    StepDone,
)
from agentrt.remote.admission.admission_queue import AdmissionQueue
from agentrt.remote.admission.request_turn import RequestTurn
from agentrt.remote.attempt import CLOSING_S
from agentrt.remote.event_reader import read_into
from agentrt.remote.fleet.drain_list import DrainList
from agentrt.remote.fleet.fleet_ledger import unsent_end, with_wait
from agentrt.remote.fleet.fleet_members import FleetMembers
from agentrt.remote.fleet.fleet_pacer import FleetPacer
from agentrt.remote.fleet.fleet_placement import FleetPlacement
from agentrt.remote.fleet.fleet_route import FleetRoute, fault_of
from agentrt.remote.fleet.fleet_times import DEFAULT_TIMES, FleetTimes
from agentrt.remote.fleet.fleet_warming import FleetWarming
from agentrt.remote.fleet.fleet_worker import FleetWorker
from agentrt.remote.fleet.worker_retries import WorkerFault, WorkerRetries
from agentrt.remote.limits import RemoteLimits
from agentrt.remote.retries import Retries
from agentrt.remote.several_engines import with_spent
from agentrt.scheduler import Order

if TYPE_CHECKING:
    from agentrt.remote.fleet.kv_feeds import KvFeeds


class FleetBackend:
    """Several servers as one engine.

    Args:
        name: Name of the fleet, for messages.
        workers: The servers. Their backends take `attempt` for `retries`.
        order: Order of waiting requests.
        clock: Clock of deadlines and ledgers.
        limits: Attempts and times of the fleet as a whole.
        drains: Servers that a user drains while the fleet runs; None looks at none.
        times: Times after which a worker counts as silent.
        feeds: KV events of the servers, for placement; None follows none.
    """

    def __init__(
        self,
        name: str,
        workers: Sequence[FleetWorker],
        order: Order,
        *,
        clock: Clock,
        limits: RemoteLimits,
        drains: DrainList | None = None,
        times: FleetTimes = DEFAULT_TIMES,
        feeds: KvFeeds | None = None,
    ) -> None:
        self._name = name
        self.feeds = feeds
        self._clock = clock
        self._limits = limits
        self._times = times
        self._events = EventQueue()
        self._jitter = random.Random()
        self._routes: dict[RequestId, FleetRoute] = {}
        self._by_turn: dict[RequestTurn, FleetRoute] = {}
        self._answered_at_s = clock.now_s()
        self._readers: list[asyncio.Task[None]] = []
        self._ticker: asyncio.Task[None] | None = None
        self.placement = FleetPlacement(workers, times.gap_s)
        self.queue = AdmissionQueue(FleetPacer(workers), order, clock, self._may_go)
        self._members = FleetMembers(
            workers, times, drains, limits.opening_s, self._opened, self._changed, self._take_back
        )
        self._warming = FleetWarming(
            self.placement, self.queue, self._members.by_name, self._events, clock
        )

    @property
    def capabilities(self) -> Capabilities:
        """Features that all servers have; the context length is the shortest of them."""
        return self._members.capabilities

    @property
    def workers(self) -> tuple[FleetWorker, ...]:
        """The servers, as the fleet sees them now."""
        return self._members.workers

    async def start(self) -> None:
        await self._members.start()
        if self.feeds is not None:
            self.feeds.start(self.placement)

    def submit(self, request: GenerateRequest) -> None:
        if request.ahead:
            self._warming.submit(request)
            return
        route = self._routes.get(request.request_id)
        now_s = self._clock.now_s()
        if route is None:
            turn = self.queue.turn()
            retries = Retries(
                self._name, self._limits, self._clock, self._jitter, request.deadline_at_s
            )
            route = FleetRoute(request, turn, retries, now_s, now_s)
            turn.on_admitted = partial(self._send, route)
            self._routes[request.request_id] = self._by_turn[turn] = route
        elif not route.is_lost:
            raise InternalError(f"request {request.request_id} was submitted twice")
        route.request, route.is_lost, route.waits_since_s = request, False, now_s
        route.turn.info = request.info
        self._enqueue(route)
        if self._ticker is None:
            self._ticker = asyncio.create_task(self._tick())

    def fill_hole(self, request_id: RequestId, fill: HoleFill) -> None:
        """Do nothing: `WarmingBackend` has the holes of such engines."""

    def update(self, updates: tuple[SchedulingInfo, ...]) -> None:
        """Reorder requests that wait, and close outputs that are due."""
        for info in updates:
            route = self._routes.get(info.request_id)
            if route is None:
                continue
            route.request = replace(route.request, info=info)
            if route.worker is not None:
                route.worker.backend.update((info,))
                continue
            self.queue.update(route.turn, info)
            if info.deadline_at_s is None:
                continue
            route.request = replace(route.request, deadline_at_s=info.deadline_at_s)
            is_due = info.deadline_at_s <= self._clock.now_s()
            if is_due and route.request.on_limit == "close" and route.task is not None:
                route.task.cancel()
                self._close_output(route)

    def cancel(self, request_id: RequestId, reason: str) -> None:
        route = self._routes.get(request_id)
        if route is None:
            self._warming.cancel(request_id)
        elif route.worker is not None:
            route.leaves = None  # it may just have been taken back, to be sent to another worker
            route.worker.backend.cancel(request_id, reason)
        elif route.is_lost:
            self._forget(route)
        else:
            self._end_unsent(route, None)

    def hint(self, hint: PrefixHint) -> None:
        """Do nothing: the servers keep their own caches."""

    def prewarm(self, constraints: tuple[ConstraintSpec, ...]) -> None:
        """Do nothing: the servers compile grammars on demand."""

    def events(self) -> AsyncIterator[BackendEvent]:
        return self._events.read()

    async def aclose(self) -> None:
        with anyio.CancelScope(shield=True):
            for route in tuple(self._routes.values()):
                if route.worker is None and not route.is_lost:
                    self._end_unsent(route, None)
            if self.feeds is not None:
                await self.feeds.aclose()
            await self._members.aclose()
            tasks = [*self._readers, *([] if self._ticker is None else [self._ticker])]
            if self._ticker is not None:
                self._ticker.cancel()
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    await task
            self.queue.close()
        self._events.close()

    def attempt(self, request: GenerateRequest, turn: RequestTurn) -> Retries:
        """The attempt of a request at its worker, in its turn there."""
        route = self._routes[request.request_id]
        route.attempt = WorkerRetries(
            self._name, self._limits, self._clock, self._jitter, request.deadline_at_s, turn
        )
        return route.attempt

    def _enqueue(self, route: FleetRoute) -> None:
        route.task = asyncio.create_task(self._wait(route))

    async def _wait(self, route: FleetRoute) -> None:
        """Wait for a worker, or until the output has to be closed."""
        request, turn = route.request, route.turn
        with anyio.CancelScope() as limit:
            if request.on_limit == "close" and request.deadline_at_s is not None:
                left_s = request.deadline_at_s - self._clock.now_s() - CLOSING_S
                limit.deadline = anyio.current_time() + left_s
            try:
                await anyio.sleep(route.pause_s)
                if route.again:
                    await self.queue.begin_again(turn, 0.0)
                else:
                    await self.queue.begin(turn)
            except AgentrtError as error:
                self._end_unsent(route, error)
        if limit.cancelled_caught:
            self._close_output(route)

    def _close_output(self, route: FleetRoute) -> None:
        """Let any worker close an output whose time is over; it sends nothing for that."""
        if route.worker is None and route.request.request_id in self._routes:
            route.task = None
            self._hand(route, next(one for one in self._members.workers if one.is_open))

    def _may_go(self, turn: RequestTurn) -> bool:
        """Choose the worker of a request; whether it has room now."""
        route = self._by_turn[turn]
        route.placement = self.placement.choose(route, self._clock.now_s())
        return route.placement is not None and not route.placement.waits

    def _send(self, route: FleetRoute, admission: Admission) -> None:
        """Send a request to the worker that was chosen."""
        placement = route.placement
        assert placement is not None, "only requests with a worker are admitted"
        worker = self._members.by_name[placement.worker]
        if route.request.info is not None:
            terms = (*admission.terms, *placement.terms)
            placed = replace(admission, terms=terms, worker=worker.name)
            self._events.put(StepDone(None, (), (), admissions=(placed,)))
        self._hand(route, worker)

    def _hand(self, route: FleetRoute, worker: FleetWorker) -> None:
        route.worker, route.leaves = worker, None
        worker.take(route.request.request_id)
        self.placement.send(route, worker, self._clock.now_s())
        worker.backend.submit(route.request)

    def _opened(self, worker: FleetWorker) -> None:
        reading = read_into(self._events, self._read(worker), worker.name)
        self._readers.append(asyncio.create_task(reading))

    def _changed(self, worker: FleetWorker, is_restarted: bool) -> None:
        """Note that the health or the room of a worker is another one."""
        if is_restarted:
            self.placement.note_restart(worker)
        self._note_room()
        self.queue.reconsider()

    def _note_room(self) -> None:
        if kv_tokens := self._members.kv_room.changed():
            self._events.put(StepDone(None, (), (), kv_room_tokens=kv_tokens))

    def _take_back(self, worker: FleetWorker, error: EngineDied) -> None:
        """Take the requests of a worker back that has hung."""
        for request_id in tuple(worker.requests):
            self._routes[request_id].leaves = error
            worker.backend.cancel(request_id, "its worker does not answer")

    async def _read(self, worker: FleetWorker) -> None:
        """Hand on the events of one worker, without failures that another one takes over."""
        async for event in worker.backend.events():
            if isinstance(event, BackendDown):
                raise InternalError(f"{worker.name} lost requests that are the fleet's to lose")
            event = self._warming.take_ends(event)
            if event.kv_room_tokens:
                worker.kv_tokens = event.kv_room_tokens
                self.placement.note_kv(worker)
                self._note_room()
            for delta in event.deltas:
                route = self._routes[delta.request_id]
                if not route.wrote:
                    route.wrote = True
                    self.placement.note_output(route)
                route.note_progress()
                self._answered_at_s = self._clock.now_s()
            ends = [(self._routes[end.request_id], end) for end in event.ends]
            moved = [(route, end, fault) for route, end in ends if (fault := fault_of(route, end))]
            for route, end in ends:
                self._leave(route, worker, end)
            gone = {route for route, _, _ in moved}
            kept = tuple(self._last(route, end) for route, end in ends if route not in gone)
            if event.deltas or kept:
                self._events.put(StepDone(None, event.deltas, kept))
            for route, end, fault in moved:
                self._move(route, worker, end, fault)
            self.queue.reconsider()

    def _leave(self, route: FleetRoute, worker: FleetWorker, end: End) -> None:
        """Take a request off the account of its worker."""
        worker.requests.discard(end.request_id)
        route.worker = route.task = None
        self.placement.end(route, worker, end, self._clock.now_s())

    def _last(self, route: FleetRoute, end: End) -> End:
        """The end of a request as the runtime gets it."""
        answered = end.reason in ("stop", "length")
        if answered:
            self._answered_at_s = self._clock.now_s()
        self._forget(route, answered=answered)
        return with_wait(with_spent(end, route.spent), route.received_at_s)

    def _forget(self, route: FleetRoute, *, answered: bool = False) -> None:
        del self._routes[route.request.request_id]
        del self._by_turn[route.turn]
        self.queue.end(route.turn, answered=answered)

    def _move(self, route: FleetRoute, worker: FleetWorker, end: End, fault: WorkerFault) -> None:
        """Send a request to another worker, unless it has failed too often."""
        route.spent.append(end.ledger)
        error = end.error or record_of(route.leaves or EngineDied("it was cancelled"))
        if fault == "loss":
            worker.is_suspect = True
            worker.wake.set()
        route.pause_s = 0.0
        if not route.may_go_on(fault, self._answered_at_s):
            spent = route.spent[:-1]
            failed = with_spent(replace(end, reason="failed", error=error), spent)
            self._forget(route)
            last = with_wait(failed, route.received_at_s)
            self._events.put(StepDone(None, (), (last,)))
            return
        route.excluded |= {worker.name}
        if fault != "loss" or route.faults > 1:
            route.pause_s = route.retries.pause_s()
        route.again, route.waits_since_s = True, self._clock.now_s()
        if route.wrote or (route.request.gives_back and end.ledger.cost_pico > 0):
            route.wrote, route.is_lost = False, True
            self._events.put(BackendDown(error, (end.request_id,), restarting=True))
        else:
            self._enqueue(route)

    def _end_unsent(self, route: FleetRoute, error: AgentrtError | None) -> None:
        """End a request that has no worker: cancelled, or failed by an error."""
        if route.task is not None and route.task is not asyncio.current_task():
            route.task.cancel()
        self._forget(route)
        end = unsent_end(route.request.request_id, route.received_at_s, self._clock.now_s(), error)
        self._events.put(StepDone(None, (), (with_spent(end, route.spent),)))

    async def _tick(self) -> None:
        """Look after requests that wait, as long as there are requests."""
        try:
            while self._routes:
                await anyio.sleep(self._times.tick_s)
                now_s = self._clock.now_s()
                if self._members.note_drains():
                    self._note_room()
                self._end_without_workers(now_s)
                live = {route.request.run_id for route in self._routes.values()}
                self.placement.forget_runs(now_s, set(live))
                self.queue.reconsider()
        finally:
            self._ticker = None

    def _end_without_workers(self, now_s: float) -> None:
        """End the requests for which no worker has been in service for too long."""
        since_s = self._members.none_since_s(now_s)
        if since_s is None:
            return
        for route in tuple(self._routes.values()):
            waits = route.worker is None and not route.is_lost
            if waits and now_s - max(since_s, route.waits_since_s) >= self._limits.outage_s:
                self._end_unsent(route, self._members.error(self._name))

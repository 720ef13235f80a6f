"""`FallbackBackend`: a remote engine, and others that take the requests it cannot serve.

A request goes to the first engine that is not cooling down. If that fails it for a reason with a
fallback (down, context overflow, refusal), the next engine of that reason gets it. An engine that
was down is left alone for a time. If some of the output has been handed on, the request is lost
(`BackendDown`) and submitted again by the runtime, which compares the outputs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import anyio

from agentrt.base.clock import Clock
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.engines.fallback_reason import FallbackReason, reason_of
from agentrt.base.errors import EngineUnavailable, Unsupported, record_of
from agentrt.base.ids import RequestId
from agentrt.protocol.backend import (
    Backend,
    Capabilities,
    GenerateRequest,
    HoleFill,
    PrefixHint,
    SchedulingInfo,
)
from agentrt.protocol.event_queue import EventQueue
from agentrt.protocol.step_output import BackendDown, BackendEvent, End, Ledger, StepDone
from agentrt.remote.event_reader import read_into
from agentrt.remote.several_engines import joint_capabilities, with_spent


@dataclass(slots=True, eq=False)
class FallbackMember:
    """One of the engines.

    Attributes:
        backend: The engine.
        reasons: Reasons for which it takes requests of the first engine; empty for the first.
        is_started: Whether it has been opened.
        cool_until_s: Instant until which it gets no requests, if another one can take them.
    """

    backend: Backend
    reasons: frozenset[FallbackReason] = frozenset()
    is_started: bool = False
    cool_until_s: float = float("-inf")


@dataclass(slots=True, eq=False)
class RequestRoute:
    """The way of one request.

    Attributes:
        request: The request.
        member: The engine that has it.
        tried: Engines that have failed it.
        wrote: Whether some of its output has been handed on.
        spent: Accounts of the engines that have failed it.
    """

    request: GenerateRequest
    member: FallbackMember
    tried: list[FallbackMember] = field(default_factory=list)
    wrote: bool = False
    spent: list[Ledger] = field(default_factory=list)


class FallbackBackend:
    """Several remote engines as one.

    Args:
        first: The engine of requests that nothing has failed.
        fallbacks: The others in their order, each with the reasons for which it takes requests.
        clock: Clock of the cooldown.
        cooldown_s: Time for which an engine that was down gets no requests.
    """

    def __init__(
        self,
        first: Backend,
        fallbacks: Sequence[tuple[Backend, frozenset[FallbackReason]]],
        *,
        clock: Clock,
        cooldown_s: float,
    ) -> None:
        self._members = [FallbackMember(first), *(FallbackMember(*one) for one in fallbacks)]
        self._clock = clock
        self._cooldown_s = cooldown_s
        self._routes: dict[RequestId, RequestRoute] = {}
        self._queue = EventQueue()
        self._readers: list[asyncio.Task[None]] = []

    @property
    def capabilities(self) -> Capabilities:
        """Features that all open engines have; the context length is the longest of them."""
        every = [one.backend.capabilities for one in self._members if one.is_started]
        windows = [one.window_tokens for one in every]
        return joint_capabilities(every, max(windows) if all(windows) else 0)

    async def start(self) -> None:
        errors: dict[FallbackMember, Exception] = {}

        async def start(member: FallbackMember) -> None:
            try:
                await member.backend.start()
            except EngineUnavailable as error:
                errors[member] = error
                return
            member.is_started = True
            reading = read_into(self._queue, self._read(member), "an engine behind a fallback")
            self._readers.append(asyncio.create_task(reading))

        async with anyio.create_task_group() as tasks:
            for member in self._members:
                if not member.is_started:
                    tasks.start_soon(start, member)
        first = self._members[0]
        rest = [one for one in self._members if one.is_started and "down" in one.reasons]
        if not first.is_started and not rest:
            raise errors[first]

    def submit(self, request: GenerateRequest) -> None:
        route = self._routes.get(request.request_id)
        if route is None:
            route = self._routes[request.request_id] = RequestRoute(request, self._first_choice())
        route.request = request
        if request.ahead and not route.member.backend.capabilities.prefills_ahead:
            error = record_of(Unsupported("the engine that takes over is not warmed"))
            end = End(request.request_id, "failed", error=error)
            self._queue.put(StepDone(None, (), (self._ended(end),)))
            return
        route.member.backend.submit(request)

    def fill_hole(self, request_id: RequestId, fill: HoleFill) -> None:
        """Do nothing: `WarmingBackend` has the holes of such engines."""

    def update(self, updates: tuple[SchedulingInfo, ...]) -> None:
        for member in self._members:
            mine = tuple(one for one in updates if self._has(member, one.request_id))
            if mine:
                member.backend.update(mine)

    def cancel(self, request_id: RequestId, reason: str) -> None:
        if route := self._routes.get(request_id):
            route.member.backend.cancel(request_id, reason)

    def hint(self, hint: PrefixHint) -> None:
        """Do nothing: the servers keep their own caches."""

    def prewarm(self, constraints: tuple[ConstraintSpec, ...]) -> None:
        """Do nothing: the servers compile grammars on demand."""

    def events(self) -> AsyncIterator[BackendEvent]:
        return self._queue.read()

    async def aclose(self) -> None:
        with anyio.CancelScope(shield=True):
            for member in self._members:
                await member.backend.aclose()
            for reader in self._readers:
                with suppress(asyncio.CancelledError):
                    await reader
        self._queue.close()

    def _has(self, member: FallbackMember, request_id: RequestId) -> bool:
        route = self._routes.get(request_id)
        return route is not None and route.member is member

    def _first_choice(self) -> FallbackMember:
        """The engine of a new request: the first one, or the next if it was down just now."""
        able = [one for one in self._members if one.is_started and _takes(one, "down")]
        return self._cooled(able)[0]

    def _cooled(self, able: list[FallbackMember]) -> list[FallbackMember]:
        """The engines that are not cooling down; all of them if each one is."""
        now_s = self._clock.now_s()
        return [one for one in able if one.cool_until_s <= now_s] or able

    async def _read(self, member: FallbackMember) -> None:
        """Hand on the events of one engine, without failures that another one takes over."""
        async for event in member.backend.events():
            if isinstance(event, BackendDown):
                self._queue.put(event)
                continue
            for delta in event.deltas:
                self._routes[delta.request_id].wrote = True
            moved = [end for end in event.ends if self._moves(member, end)]
            kept = tuple(end for end in event.ends if end not in moved)
            kept = tuple(self._ended(end) for end in kept)
            if event.deltas or kept or event.admissions:
                self._queue.put(replace(event, ends=kept))
            for end in moved:
                self._move(self._routes[end.request_id], end)

    def _ended(self, end: End) -> End:
        """The end of a request, with its engine and with all that it has used."""
        route = self._routes.pop(end.request_id)
        end = with_spent(end, route.spent)
        return end if route.member is self._members[0] else replace(end, by_fallback=True)

    def _moves(self, member: FallbackMember, end: End) -> bool:
        """Whether another engine takes over a request that has ended; notes which one."""
        if self._routes[end.request_id].request.ahead:
            return False  # another engine has another cache
        reason = reason_of(end.error.type) if end.reason == "failed" and end.error else None
        if reason == "down":
            member.cool_until_s = self._clock.now_s() + self._cooldown_s
        if reason is None:
            return False
        route = self._routes[end.request_id]
        route.tried.append(member)
        following = self._following(route, reason)
        if following is None:
            return False
        route.member = following
        route.spent.append(end.ledger)
        return True

    def _following(self, route: RequestRoute, reason: FallbackReason) -> FallbackMember | None:
        able = [
            one
            for one in self._members
            if one.is_started and reason in one.reasons and one not in route.tried
        ]
        return next(iter(self._cooled(able)), None)

    def _move(self, route: RequestRoute, end: End) -> None:
        """Send a request to the engine that takes it over."""
        is_paid = route.request.gives_back and end.ledger.cost_pico > 0
        if not route.wrote and not is_paid:
            route.member.backend.submit(route.request)
            return
        assert end.error is not None, "a request that failed has an error"
        route.wrote = False
        down = BackendDown(end.error, (end.request_id,), restarting=True)
        self._queue.put(down)


def _takes(member: FallbackMember, reason: FallbackReason) -> bool:
    return not member.reasons or reason in member.reasons

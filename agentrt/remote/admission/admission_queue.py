"""Admission of requests to one server: as many as it serves at once, the most urgent first."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable

from agentrt.base.clock import Clock, MonotonicClock
from agentrt.protocol.backend import SchedulingInfo
from agentrt.remote.admission.request_pacer import HeldBackBy, RequestPacer
from agentrt.remote.admission.request_turn import RequestTurn
from agentrt.remote.admission.waiting_turns import WaitingTurns
from agentrt.scheduler.order.order import BY_ARRIVAL, OVERDUE_SHARE, Order

LOOKED_AT = 64
"""Requests that are asked whether they may go before others that would rather wait."""


class AdmissionQueue:
    """The queue before one server.

    Args:
        pacer: Decides when the next request may be sent.
        order: Order of waiting requests.
        clock: Clock of scheduling info and deadlines.
        may_go: Whether a request may be sent now; others are sent before one that may not. None
            lets each go in its turn.

    Attributes:
        watchers: Called after the room of the server has changed.
    """

    def __init__(
        self,
        pacer: RequestPacer,
        order: Order = BY_ARRIVAL,
        clock: Clock | None = None,
        may_go: Callable[[RequestTurn], bool] | None = None,
    ) -> None:
        self.pacer = pacer
        self.order = order
        self._clock = clock or MonotonicClock()
        self._waiting = WaitingTurns(order)
        self._may_go = may_go
        self._numbers = itertools.count()
        self._overdue = 0
        self._held_by: HeldBackBy = "in_flight"
        self._timer: asyncio.TimerHandle | None = None
        self.watchers: list[Callable[[], None]] = []

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return len(self._waiting)

    def turn(self) -> RequestTurn:
        """The turn of a new request."""
        return RequestTurn(next(self._numbers))

    def update(self, turn: RequestTurn, info: SchedulingInfo) -> None:
        """Note new scheduling info of a request; one that waits may move."""
        self._waiting.update(turn, info, self._clock.now_s())

    async def begin(self, turn: RequestTurn) -> None:
        """Wait until an attempt of a request may be sent. Cancellation leaves the queue.

        Raises:
            UsageError: The scheduling info lacks something that the policy needs.
        """
        await self._admitted(turn, self._join(turn))

    async def begin_again(self, turn: RequestTurn, wait_s: float) -> None:
        """Wait for another attempt after the server refused one because of its load.

        The request is in the queue before any other is admitted, so that it keeps its place.

        Args:
            turn: The request.
            wait_s: Time for which the server asks to send nothing, or 0.
        """
        self._note_refusal(turn, wait_s)
        turn.was_refused = True
        await self._admitted(turn, self._join(turn))

    def refuse(self, turn: RequestTurn, wait_s: float) -> None:
        """Note that the server refused the last attempt of a request because of its load.

        Args:
            turn: The request.
            wait_s: Time for which the server asks to send nothing, or 0.
        """
        self._note_refusal(turn, wait_s)
        self._admit()

    def end(self, turn: RequestTurn, *, answered: bool = False) -> None:
        """Note the end of an attempt; of one that has ended already, do nothing."""
        if turn.sent_at_s is not None:
            self._leave(turn, answered=answered)
            self._admit()

    def reconsider(self) -> None:
        """Admit what the pacer allows now, after its room has changed."""
        self._admit()
        for watcher in self.watchers:
            watcher()

    def close(self) -> None:
        """Drop the timer of the next admission."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _note_refusal(self, turn: RequestTurn, wait_s: float) -> None:
        if turn.sent_at_s is not None:
            self.pacer.refuse(self._now_s(), turn.sent_at_s, wait_s)
            self._leave(turn, answered=False)

    def _leave(self, turn: RequestTurn, *, answered: bool) -> None:
        """Take the attempt under way off the account of the server."""
        unused = turn.tokens - turn.used_tokens if answered and turn.used_tokens else 0.0
        self.pacer.end(self._now_s(), answered=answered, unused_tokens=unused)
        self._overdue -= turn.is_overdue
        turn.sent_at_s, turn.used_tokens, turn.is_overdue = None, 0.0, False

    def _join(self, turn: RequestTurn) -> asyncio.Future[None]:
        self._waiting.add(turn, self._clock.now_s())
        turn.waiting = waiting = asyncio.get_running_loop().create_future()
        self._admit()
        if turn.sent_at_s is None:
            self._waiting.note_held(turn, self._held_by)
        return waiting

    async def _admitted(self, turn: RequestTurn, waiting: asyncio.Future[None]) -> None:
        try:
            await waiting
        except asyncio.CancelledError:
            self._waiting.discard(turn)
            self.end(turn)
            raise
        finally:
            turn.waiting = None

    def _admit(self) -> None:
        """Admit the first of the queue for as long as the pacer allows."""
        self.close()
        position, clock_s = 0, self._clock.now_s()
        while turn := self._next(clock_s):
            now_s = self._now_s()
            ready_s = self.pacer.ready_at_s(now_s, turn.tokens)
            if ready_s > now_s:
                self._note_held("rate" if ready_s < math.inf else self.pacer.full_by, position)
                if ready_s < math.inf:
                    loop = asyncio.get_running_loop()
                    self._timer = loop.call_at(ready_s, self._admit)
                return
            if self._may_go is not None and not self._may_go(turn):
                other = self._other(turn, clock_s, self._may_go)
                if other is None:
                    self._note_held("placement", position)
                    return
                turn = other
            self._send(turn, now_s, clock_s, position)
            position += 1

    def _note_held(self, cause: HeldBackBy, position: int) -> None:
        self._held_by = cause
        if position:
            self._waiting.note_round(cause)

    def _other(
        self, first: RequestTurn, clock_s: float, may_go: Callable[[RequestTurn], bool]
    ) -> RequestTurn | None:
        """The most urgent request that may go in place of the first."""
        first.is_overdue = False
        for turn in self._waiting.in_order(clock_s, LOOKED_AT):
            lives = turn.waiting is not None and not turn.waiting.done()
            if lives and turn is not first and may_go(turn):
                return turn
        return None

    def _next(self, clock_s: float) -> RequestTurn | None:
        """The request to send next: overdue ones first, for a small share of the room."""
        while True:
            turn, is_overdue = self._waiting.first(clock_s), False
            if self._overdue < max(1.0, OVERDUE_SHARE * self.pacer.window):
                late = self._waiting.overdue(clock_s)
                turn, is_overdue = (turn, False) if late is None else (late, True)
            if turn is None:
                return None
            if turn.waiting is not None and not turn.waiting.done():
                turn.is_overdue = is_overdue
                return turn
            self._waiting.discard(turn)  # its task is being cancelled

    def _send(self, turn: RequestTurn, now_s: float, clock_s: float, position: int) -> None:
        self._overdue += turn.is_overdue
        turn.sent_at_s, turn.was_sent, turn.was_refused = now_s, True, False
        self.pacer.begin(now_s, turn.tokens)
        admission = self._waiting.admit(turn, clock_s, position)
        assert turn.waiting is not None, "a request in the queue waits"
        turn.waiting.set_result(None)
        if turn.on_admitted is not None:
            turn.on_admitted(admission)

    @staticmethod
    def _now_s() -> float:
        return asyncio.get_running_loop().time()

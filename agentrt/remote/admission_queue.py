"""Admission of requests to one server, in the order in which they were made."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from dataclasses import dataclass, field

from agentrt.remote.request_pacer import RequestPacer


@dataclass(slots=True, eq=False)
class RequestTurn:
    """One request on its way to the server, over all of its attempts.

    Attributes:
        number: Place in the order of requests; an attempt that was refused keeps it.
        tokens: Tokens that an attempt may take.
        used_tokens: Tokens that the attempt under way has taken; 0 if unknown.
        was_sent: Whether any attempt was sent.
        sent_at_s: Instant of the attempt under way; None if there is none.
        waiting: Future of the wait, or None.
    """

    number: int
    tokens: float = 0.0
    used_tokens: float = 0.0
    was_sent: bool = False
    sent_at_s: float | None = None
    waiting: asyncio.Future[None] | None = field(default=None, repr=False)


class AdmissionQueue:
    """The queue before one server.

    Args:
        pacer: Decides when the next request may be sent.
    """

    def __init__(self, pacer: RequestPacer) -> None:
        self._pacer = pacer
        self._queue: list[tuple[int, int, RequestTurn]] = []
        self._numbers = itertools.count()
        self._entries = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    def turn(self) -> RequestTurn:
        """The turn of a new request, behind all before it."""
        return RequestTurn(next(self._numbers))

    async def begin(self, turn: RequestTurn) -> None:
        """Wait until an attempt of a request may be sent. Cancellation leaves the queue."""
        waiting = self._join(turn)
        self._admit()
        await self._admitted(turn, waiting)

    async def begin_again(self, turn: RequestTurn, wait_s: float) -> None:
        """Wait for another attempt after the server refused one because of its load.

        The request is in the queue before any other is admitted, so that it keeps its place.

        Args:
            turn: The request.
            wait_s: Time for which the server asks to send nothing, or 0.
        """
        now_s = self._now_s()
        if turn.sent_at_s is not None:
            self._pacer.refuse(now_s, turn.sent_at_s, wait_s)
            self._pacer.end(now_s, answered=False)
            turn.sent_at_s, turn.used_tokens = None, 0.0
        waiting = self._join(turn)
        self._admit()
        await self._admitted(turn, waiting)

    def end(self, turn: RequestTurn, *, answered: bool = False) -> None:
        """Note the end of an attempt; of one that has ended already, do nothing."""
        if turn.sent_at_s is None:
            return
        unused = turn.tokens - turn.used_tokens if answered and turn.used_tokens else 0.0
        self._pacer.end(self._now_s(), answered=answered, unused_tokens=unused)
        turn.sent_at_s, turn.used_tokens = None, 0.0
        self._admit()

    def close(self) -> None:
        """Drop the timer of the next admission."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _join(self, turn: RequestTurn) -> asyncio.Future[None]:
        turn.waiting = waiting = asyncio.get_running_loop().create_future()
        heapq.heappush(self._queue, (turn.number, next(self._entries), turn))
        return waiting

    async def _admitted(self, turn: RequestTurn, waiting: asyncio.Future[None]) -> None:
        try:
            await waiting
        except asyncio.CancelledError:
            if turn.sent_at_s is not None:
                self.end(turn)
            raise
        finally:
            turn.waiting = None

    def _admit(self) -> None:
        """Admit from the front of the queue for as long as the pacer allows."""
        self.close()
        while self._queue:
            turn = self._queue[0][2]
            if turn.waiting is None or turn.waiting.done():
                heapq.heappop(self._queue)
                continue
            now_s = self._now_s()
            ready_s = self._pacer.ready_at_s(now_s, turn.tokens)
            if ready_s > now_s:
                if ready_s < math.inf:
                    loop = asyncio.get_running_loop()
                    self._timer = loop.call_at(ready_s, self._admit)
                return
            heapq.heappop(self._queue)
            turn.sent_at_s, turn.was_sent = now_s, True
            self._pacer.begin(now_s, turn.tokens)
            turn.waiting.set_result(None)

    @staticmethod
    def _now_s() -> float:
        return asyncio.get_running_loop().time()

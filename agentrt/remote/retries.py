"""Retries of one request to a server: how often, for how long, and the pauses between them.

A server that cannot be reached is waited for, since an attempt that does not arrive harms nothing.
Attempts that it answered with an error are few. A lost connection proves little: a server that is
started again breaks off all requests, those in its queue too, so that time has to pass as well.
"""

from __future__ import annotations

import random

import anyio

from agentrt.base.clock import Clock
from agentrt.base.errors import EngineUnavailable
from agentrt.remote.admission.request_turn import RequestTurn
from agentrt.remote.limits import RemoteLimits

FIRST_SHARE = 0.1
DOUBLINGS = 4


class Retries:
    """Attempts of one request so far.

    Args:
        url: Address of the server, for messages.
        limits: Limits of the server.
        clock: Clock of deadlines.
        jitter: Spreads the pauses of requests that failed together.
        deadline_at_s: Deadline of the request, or None.
        turn: Turn of the request at the server, for all of its attempts; None without one.
    """

    def __init__(
        self,
        url: str,
        limits: RemoteLimits,
        clock: Clock,
        jitter: random.Random,
        deadline_at_s: float | None = None,
        turn: RequestTurn | None = None,
    ) -> None:
        self._url = url
        self._limits = limits
        self._clock = clock
        self._jitter = jitter
        self._deadline_at_s = deadline_at_s
        self.turn = turn
        self._away_since_s: float | None = None
        self._lost_since_s: float | None = None
        self._pauses = 0
        self._failures = 0

    def note_failure(self) -> bool:
        """Note an attempt that the server failed; whether another one may follow."""
        self._away_since_s = None
        self._failures += 1
        return self._failures < self._limits.attempts

    def note_loss(self) -> bool:
        """Note an attempt that lost its connection; whether another one may follow."""
        now_s = self._clock.now_s()
        if self._lost_since_s is None:
            self._lost_since_s = now_s
        return self.note_failure() or now_s - self._lost_since_s < self._limits.outage_s

    def note_away(self) -> bool:
        """Note an attempt that found no server ready; whether another one may follow."""
        if not self._limits.outage_s:
            return self.note_failure()
        now_s = self._clock.now_s()
        if self._away_since_s is None:
            self._away_since_s = now_s
        return now_s - self._away_since_s < self._limits.outage_s

    def note_silence(self) -> bool:
        """Note an attempt to which nothing came for too long; whether another one may follow."""
        return False

    def note_progress(self) -> None:
        """Note output beyond that of all attempts before: what comes now is counted anew."""
        self._away_since_s = self._lost_since_s = None
        self._pauses = self._failures = 0

    def note_busy(self, answered_at_s: float) -> bool:
        """Note an attempt that the server had no room for; whether another one may follow.

        Args:
            answered_at_s: Instant at which the server last answered any request: as long as it
                answers others, this one has its turn.
        """
        if self._away_since_s is not None:
            self._away_since_s = max(answered_at_s, self._away_since_s)
        return self.note_away()

    async def pause(self, wait_s: float = 0.0) -> None:
        """Wait before the next attempt, `wait_s` at least.

        Raises:
            EngineUnavailable: The server asks for a wait past the deadline or the limit.
        """
        await anyio.sleep(self.pause_s(wait_s))

    def pause_s(self, wait_s: float = 0.0) -> float:
        """Time before the next attempt, `wait_s` at least.

        Raises:
            EngineUnavailable: The server asks for a wait past the deadline or the limit.
        """
        left_s = self._limits.retry_after_s
        if self._deadline_at_s is not None:
            left_s = self._deadline_at_s - self._clock.now_s()
        if wait_s and wait_s > left_s:
            raise EngineUnavailable(
                f"{self._url} is busy and asks to wait {wait_s:g} s, longer than there is time",
                hint="Try again later, or raise the deadline",
            )
        share: float = min(1.0, FIRST_SHARE * 2**self._pauses)
        self._pauses = min(self._pauses + 1, DOUBLINGS)
        return wait_s + share * self._limits.pause_s * self._jitter.random()

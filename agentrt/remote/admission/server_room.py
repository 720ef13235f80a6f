"""The room that a server has for our requests, learned from its load. Pure decisions.

Other clients of the server take part of it. Their requests are those that it has beyond ours, and
of its KV cache they hold the same part as of its requests.
"""

from __future__ import annotations

import math
from collections import deque

from agentrt.remote.admission.engine_load import EngineCapacity, EngineLoad

FIRST_REQUESTS = 8.0
"""Requests in flight at once before the first look at the load."""

PROBED_SHARE = 1 / 16
"""Growth of a room that was full once, in a look that finds nothing waiting."""

MOST_PAUSE_LOOKS = 32
"""Looks between two such probes at most. Each probe that only made requests wait at the server
doubles the pause: what waits there can no longer be moved."""

REMEMBERED_LOOKS = 8
"""Looks of which the one with the most running requests counts. A single look may fall between the
end of a request and the begin of the next one, which is in the server's queue already."""

LEAST_SHARE = 1 / 16
"""Share of the KV memory that counts as ours however much others hold: some of it comes free."""


class ServerRoom:
    """The room of one server.

    Attributes:
        requests: Requests that may be in flight at once.
        kv_tokens: KV that our runs may count on; 0.0 if unknown.
        waiting: Requests in the server's own queue, when it was last looked at.
    """

    def __init__(self) -> None:
        self.waiting = 0.0
        self.requests = FIRST_REQUESTS
        self.kv_tokens = 0.0
        self._capacity = EngineCapacity()
        self._was_full = False
        self._running: deque[float] = deque(maxlen=REMEMBERED_LOOKS)
        self._probe = _Probe()

    @property
    def is_first(self) -> bool:
        """Whether nothing has shown yet how much the server computes at once."""
        return not (self._was_full or self._capacity.slots or math.isinf(self.requests))

    def note_capacity(self, capacity: EngineCapacity) -> None:
        """Learn what the server can have at once."""
        self._capacity = capacity
        self.kv_tokens = capacity.kv_tokens
        if capacity.slots:
            self.requests = capacity.slots

    def note_unknown(self) -> None:
        """Note that the server does not show its load."""
        self.waiting = 0.0
        if not self._capacity.slots:
            self.requests = math.inf

    def note_load(self, load: EngineLoad, in_flight: int) -> None:
        """Learn from a look at the load.

        Args:
            load: The load.
            in_flight: Most of our requests that were with the server since the last look.
        """
        if math.isinf(self.requests):  # it is seen for the first time, or again after an outage
            self.requests = max(1.0, *self._running) if self._was_full else FIRST_REQUESTS
        self.waiting = load.waiting
        there = load.running + load.waiting
        others = max(0.0, there - in_flight)
        others_share = others / there if there else 0.0
        size = load.kv_tokens or self._capacity.kv_tokens
        self.kv_tokens = size * max(LEAST_SHARE, 1.0 - load.kv_share * others_share)
        if self._capacity.slots:
            self.requests = max(1.0, self._capacity.slots - others)
        elif load.waiting and in_flight:
            self._was_full = True
            self._running.append(math.floor(load.running * (1.0 - others_share)))
            room = max(1.0, *self._running)
            self._probe.note_wait(failed=room < self.requests)
            self.requests = room
        elif min(there, in_flight) >= math.floor(self.requests):  # it has them all, and keeps up
            self._running.append(math.floor(load.running * (1.0 - others_share)))
            if not self._was_full:
                self.requests *= 2
            elif self._probe.is_due():
                self.requests += max(1.0, self.requests * PROBED_SHARE)


class _Probe:
    """The pauses between probes of a room that was full once, in looks."""

    def __init__(self) -> None:
        self._pause = 1
        self._left = 0
        self._is_on = False

    def note_wait(self, *, failed: bool) -> None:
        """Note a look that found requests waiting.

        Args:
            failed: Whether there was room for fewer than had been thought.
        """
        if self._is_on and failed:
            self._pause = min(MOST_PAUSE_LOOKS, 2 * self._pause)
        self._left, self._is_on = self._pause - 1, False

    def is_due(self) -> bool:
        """Whether to probe now, after a look that found a full room and nothing waiting."""
        if self._left > 0:
            self._left -= 1
            return False
        if self._is_on:  # the last probe found room
            self._pause = 1
        self._is_on = True
        return True

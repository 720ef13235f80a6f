"""The room that a server has for our requests, learned from its load. Pure decisions.

Other clients of the server take part of it. Their requests are those that it has beyond ours, and
of its KV cache they hold the same part as of its requests.
"""

from __future__ import annotations

import math

from agentrt.remote.admission.engine_load import EngineCapacity, EngineLoad

FIRST_REQUESTS = 8.0
"""Requests in flight at once before the first look at the load."""

PROBED_SHARE = 1 / 16
"""Growth of a room that was full once, in a look that finds nothing waiting."""

LEAST_SHARE = 1 / 16
"""Share of the KV memory that counts as ours however much others hold: some of it comes free."""


class ServerRoom:
    """The room of one server.

    Attributes:
        requests: Requests that may be in flight at once.
        kv_tokens: KV that our runs may count on; 0.0 if unknown.
    """

    def __init__(self) -> None:
        self.requests = FIRST_REQUESTS
        self.kv_tokens = 0.0
        self._capacity = EngineCapacity()
        self._was_full = False

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
        if not self._capacity.slots:
            self.requests = math.inf

    def note_load(self, load: EngineLoad, in_flight: int) -> None:
        """Learn from a look at the load.

        Args:
            load: The load.
            in_flight: Most of our requests that were with the server since the last look.
        """
        there = load.running + load.waiting
        others = max(0.0, there - in_flight)
        others_share = others / there if there else 0.0
        size = load.kv_tokens or self._capacity.kv_tokens
        self.kv_tokens = size * max(LEAST_SHARE, 1.0 - load.kv_share * others_share)
        if self._capacity.slots:
            self.requests = max(1.0, self._capacity.slots - others)
        elif load.waiting and in_flight:
            self._was_full = True
            self.requests = max(1.0, math.floor(load.running * (1.0 - others_share)))
        elif min(there, in_flight) >= self.requests:  # it has them all, and keeps up
            more = max(1.0, self.requests * PROBED_SHARE) if self._was_full else self.requests
            self.requests += more

"""The KV memory of a fleet: that of the workers in service together."""

from __future__ import annotations

from collections.abc import Sequence

from agentrt.remote.fleet.fleet_worker import FleetWorker

MIN_CHANGE = 0.05
"""Share by which the memory must change before it is reported."""


class FleetKvRoom:
    """The KV memory that runs may count on.

    Args:
        workers: The workers.
    """

    def __init__(self, workers: Sequence[FleetWorker]) -> None:
        self._workers = workers
        self._reported = 0.0

    @property
    def kv_tokens(self) -> float:
        """The sum over the workers in service; 0.0 if none shows its memory.

        A worker that does not show its own counts as the smallest of those that do.
        """
        shown = [one.kv_tokens for one in self._workers if one.in_service]
        known = [one for one in shown if one]
        return sum(known) + min(known) * (len(shown) - len(known)) if known else 0.0

    def changed(self) -> float:
        """The memory, if it is another one than was last reported; else 0.0."""
        now = self.kv_tokens
        if not now or abs(now - self._reported) <= MIN_CHANGE * self._reported:
            return 0.0
        self._reported = now
        return now

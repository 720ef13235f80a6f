"""Attempts of a tool, reported as they happen."""

from __future__ import annotations

from collections.abc import Callable

from agentrt.base.errors import ErrorRecord
from agentrt.base.record import record


@record
class AttemptStarted:
    """An attempt began: it has a worker.

    Attributes:
        attempt: Number of the attempt, from 1.
        at_s: Instant on the run's clock.
    """

    attempt: int
    at_s: float


@record
class AttemptEnded:
    """An attempt is over.

    Attributes:
        attempt: Number of the attempt, from 1.
        at_s: Instant on the run's clock.
        error: Error raised; None if it gave a result.
    """

    attempt: int
    at_s: float
    error: ErrorRecord | None = None


OnAttempt = Callable[[AttemptStarted | AttemptEnded], None]

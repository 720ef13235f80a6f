"""Attempts of a tool, told as they happen."""

from __future__ import annotations

from collections.abc import Callable

from agentrt.base.errors import ErrorRecord
from agentrt.base.record import record


@record
class AttemptStarted:
    """An attempt began: it has a worker.

    Attributes:
        attempt: Counts from 1.
        at_s: When, on the run's clock.
    """

    attempt: int
    at_s: float


@record
class AttemptEnded:
    """An attempt is over.

    Attributes:
        attempt: Counts from 1.
        at_s: When, on the run's clock.
        error: What it raised; None when it gave a result.
    """

    attempt: int
    at_s: float
    error: ErrorRecord | None = None


OnAttempt = Callable[[AttemptStarted | AttemptEnded], None]

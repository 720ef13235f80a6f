"""The turn of one request at a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from agentrt.protocol.backend import SchedulingInfo
from agentrt.protocol.step_output import Admission


@dataclass(slots=True, eq=False)
class RequestTurn:
    """One request on its way to the server, over all of its attempts.

    Attributes:
        number: Place in the order of arrival; an attempt that was refused keeps it.
        info: Scheduling info, for its place among the waiting; None without a scheduler.
        on_admitted: Called with each admission.
        tokens: Tokens that an attempt may take.
        used_tokens: Tokens that the attempt under way has taken; 0 if unknown.
        was_sent: Whether any attempt was sent.
        sent_at_s: Instant of the attempt under way, on the event loop's clock; None if there is
            none.
        was_refused: Whether the server refused an attempt because of its load; the next one goes
            before all others.
        is_overdue: Whether the attempt under way was admitted because it was overdue.
        waiting: Future of the wait, or None.
    """

    number: int
    info: SchedulingInfo | None = None
    on_admitted: Callable[[Admission], None] | None = None
    tokens: float = 0.0
    used_tokens: float = 0.0
    was_sent: bool = False
    sent_at_s: float | None = None
    was_refused: bool = False
    is_overdue: bool = False
    waiting: asyncio.Future[None] | None = field(default=None, repr=False)

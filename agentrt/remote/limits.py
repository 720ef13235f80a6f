"""Sizes and times beyond which an answer of a server is refused."""

from __future__ import annotations

from dataclasses import replace

from agentrt.base.errors import UsageError
from agentrt.base.record import record


@record
class RemoteLimits:
    """Limits of one server.

    An answer that breaks off is asked for again with the same seed. The text that the program has
    already is compared and left out; a server that writes something else is an `OutputDiverged`.
    The deadline of a request ends it at once, whatever it waits for.

    Attributes:
        event_bytes: One event of a stream; a line of it is no longer than that.
        answer_bytes: One whole answer, with all that is around its text.
        attempts: Attempts in a row that reach the server and bring no new text.
        outage_s: Time in a row in which a server that has been opened may refuse connections or
            answer 502, 503 or 504, such as while it loads its model again. Attempts whose
            connection is lost end only when both `attempts` and this time are used up.
        pause_s: Longest pause between attempts; the first one is a tenth of it.
        retry_after_s: Longest pause that a server may ask for if there is no deadline.
        silence_s: Longest silence before the first text of an answer.
        stall_s: Longest silence behind the first text; then the answer has broken off.
        opening_s: Time for all requests of the opening together; None sets no limit.
    """

    event_bytes: int = 4 << 20
    answer_bytes: int = 256 << 20
    attempts: int = 5
    outage_s: float = 300.0
    pause_s: float = 2.0
    retry_after_s: float = 60.0
    silence_s: float = 600.0
    stall_s: float = 120.0
    opening_s: float | None = None

    def __post_init__(self) -> None:
        if min(self.event_bytes, self.answer_bytes, self.attempts) < 1:
            raise UsageError("a limit of a remote engine is below 1", hint="Give positive limits")
        if not (min(self.outage_s, self.pause_s) >= 0 and self.silence_s > 0 and self.stall_s > 0):
            raise UsageError("a time of a remote engine is negative", hint="Give positive seconds")

    @property
    def opening(self) -> RemoteLimits:
        """The limits of the opening, where an address may simply be wrong."""
        return replace(self, attempts=min(self.attempts, OPENING_ATTEMPTS), outage_s=0.0)


OPENING_ATTEMPTS = 3
DEFAULT_LIMITS = RemoteLimits()

"""Sizes and times beyond which an answer of a server is refused."""

from __future__ import annotations

from dataclasses import dataclass

from agentrt.base.errors import UsageError


@dataclass(frozen=True, slots=True)
class RemoteLimits:
    """Limits of one server.

    Attributes:
        event_bytes: One event of a stream; a line of it is no longer than that.
        answer_bytes: One whole answer, with all that is around its text.
        attempts: Attempts for one request; none follows once text has been handed on.
        retry_after_s: Longest pause that a server may ask for if there is no deadline.
        opening_s: Time for all requests of the opening together; None sets no limit.
    """

    event_bytes: int = 4 << 20
    answer_bytes: int = 256 << 20
    attempts: int = 3
    retry_after_s: float = 60.0
    opening_s: float | None = None

    def __post_init__(self) -> None:
        if min(self.event_bytes, self.answer_bytes, self.attempts) < 1:
            raise UsageError("a limit of a remote engine is below 1", hint="Give positive limits")


DEFAULT_LIMITS = RemoteLimits()

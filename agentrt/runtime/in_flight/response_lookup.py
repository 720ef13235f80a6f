"""The look-up of one generation in the response cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentrt.runtime.in_flight.cached_answer import CachedAnswer


@dataclass(slots=True, eq=False)
class ResponseLookup:
    """The look-up of one generation in the response cache.

    Attributes:
        key: Key of its request.
        began_at_s: Instant at which it began.
        answer: The answer that was found, or None.
        is_done: Whether it has ended.
        looked_s: Time that it took, waits for another process included.
    """

    key: str
    began_at_s: float
    answer: CachedAnswer | None = None
    is_done: bool = False
    looked_s: float = 0.0

    def end(self, now_s: float) -> None:
        """Note the end."""
        self.is_done = True
        self.looked_s = now_s - self.began_at_s

"""When the next request may be sent to a server: rates a minute, and concurrency that adapts.

Pure decisions: instants are handed in. Concurrency grows by one a round of answers and is halved
by a refusal (AIMD, as TCP does), at most once for the requests that were in flight together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

HeldBackBy = Literal["in_flight", "rate", "placement", "outage"]
"""Cause of a wait: enough requests with the server, a rate that is used up, a full worker that is
worth the wait, or no worker in service."""

HOSTED_WINDOW = 32
"""Requests in flight at once to a hosted API before its first answer."""

_BURST_S = {"requests": 1.0, "tokens": 10.0}
"""Part of a minute's amount that may be used at once: hosted APIs look at seconds, too."""


@dataclass(slots=True)
class RateBucket:
    """An amount a minute. The last request before it is empty may overdraw it.

    Attributes:
        per_s: Amount that a second adds.
        most: Largest amount.
        level: Amount at `at_s`; below 0 if it is overdrawn.
        at_s: Instant of `level`.
    """

    per_s: float
    most: float
    level: float
    at_s: float = -math.inf

    @classmethod
    def of(cls, per_minute: int, burst_s: float) -> RateBucket:
        """A full bucket."""
        most = max(1.0, per_minute / 60 * burst_s)
        return cls(per_minute / 60, most, most)

    def ready_at_s(self, now_s: float, need: float) -> float:
        """Instant at which it holds `need`, or all that it can hold."""
        self._refill(now_s)
        missing = min(need, self.most) - self.level
        return now_s if missing <= 0 else now_s + missing / self.per_s

    def take(self, now_s: float, amount: float) -> None:
        """Take an amount; a negative one is given back."""
        self._refill(now_s)
        self.level = min(self.most, self.level - amount)

    def _refill(self, now_s: float) -> None:
        if now_s > self.at_s:
            gained = (now_s - self.at_s) * self.per_s if self.at_s > -math.inf else 0.0
            self.level = min(self.most, self.level + gained)
            self.at_s = now_s


class RequestPacer:
    """The rates and the concurrency of one server.

    Attributes:
        in_flight: Requests that the server has.
        room: Requests that it may have at once, as far as its load shows.
        warm_ups: Requests that only warm its prefix cache. None is held back because of them.

    Args:
        concurrency: Maximum number of requests in flight; 0 sets none.
        requests_per_minute: Rate of requests; 0 sets none.
        tokens_per_minute: Rate of tokens, prompts and outputs together; 0 sets none.
        first_window: Requests in flight at once before the first answer.
    """

    def __init__(
        self,
        concurrency: int = 0,
        requests_per_minute: int = 0,
        tokens_per_minute: int = 0,
        first_window: float = math.inf,
    ) -> None:
        self._most = float(concurrency) if concurrency else math.inf
        self._window = min(first_window, self._most)
        self._requests = _bucket("requests", requests_per_minute)
        self._tokens = _bucket("tokens", tokens_per_minute)
        self._not_before_s = -math.inf
        self._halved_at_s = -math.inf
        self._is_starting = True
        self.in_flight = self.warm_ups = 0
        self._most_in_flight = 0
        self.room = math.inf

    @property
    def window(self) -> float:
        """Requests that may be in flight at once now."""
        return min(self._window, self.room)

    @property
    def full_by(self) -> HeldBackBy:
        """Cause of a wait for another request to end."""
        return "in_flight"

    def take_most_in_flight(self) -> int:
        """Most requests that were in flight at once since the last call, warm-ups included."""
        most, self._most_in_flight = self._most_in_flight, self.in_flight + self.warm_ups
        return most

    def ready_at_s(self, now_s: float, tokens: float) -> float:
        """Instant at which a request may be sent; infinite if another one has to end first."""
        if self.in_flight and self.in_flight + 1 > self.window:
            return math.inf
        ready_s = max(now_s, self._not_before_s)
        if self._requests is not None:
            ready_s = max(ready_s, self._requests.ready_at_s(now_s, 1.0))
        if self._tokens is not None:
            ready_s = max(ready_s, self._tokens.ready_at_s(now_s, tokens))
        return ready_s

    def begin(self, now_s: float, tokens: float) -> None:
        """Note a request that is sent, with the tokens that it may take."""
        self.in_flight += 1
        self._note_most()
        if self._requests is not None:
            self._requests.take(now_s, 1.0)
        if self._tokens is not None:
            self._tokens.take(now_s, tokens)

    def is_open(self, now_s: float) -> bool:
        """Whether the server takes requests now: it has not asked to send none for a time."""
        return now_s >= self._not_before_s

    def begin_warm_up(self) -> None:
        """Note a warm-up that is sent."""
        self.warm_ups += 1
        self._note_most()

    def end_warm_up(self) -> None:
        """Note the end of a warm-up."""
        self.warm_ups -= 1

    def end(self, now_s: float, *, answered: bool, unused_tokens: float = 0.0) -> None:
        """Note the end of a request.

        Args:
            now_s: The instant.
            answered: Whether the server answered it; else it failed, or was refused.
            unused_tokens: Tokens that were noted at its begin and that it did not take.
        """
        self.in_flight -= 1
        if self._tokens is not None:
            self._tokens.take(now_s, -unused_tokens)
        if answered and self._window < math.inf:
            step = 1.0 if self._is_starting else 1.0 / max(1.0, self._window)
            self._window = min(self._most, self._window + step)

    def refuse(self, now_s: float, sent_at_s: float, wait_s: float) -> None:
        """Note that the server refused a request because of its load.

        Args:
            now_s: The instant.
            sent_at_s: Instant of sending: requests of before the last halving say nothing new.
            wait_s: Time for which it asks to send nothing, or 0.
        """
        self._not_before_s = max(self._not_before_s, now_s + wait_s)
        self._is_starting = False
        if sent_at_s >= self._halved_at_s:
            self._halved_at_s = now_s
            self._window = max(1.0, min(self._window, float(self.in_flight)) / 2)

    def _note_most(self) -> None:
        self._most_in_flight = max(self._most_in_flight, self.in_flight + self.warm_ups)


def _bucket(what: str, per_minute: int) -> RateBucket | None:
    return RateBucket.of(per_minute, _BURST_S[what]) if per_minute else None

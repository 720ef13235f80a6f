"""The decision whether a server has room to spare for a warm-up. Pure."""

from __future__ import annotations

from agentrt.base.record import record

MOST_WARM_UPS = 2
"""Warm-ups of one server at once. Each of them computes a prompt, which fills its steps alone."""


@record
class SpareRoom:
    """The load of one server.

    Attributes:
        waiting_here: Requests that wait before it.
        waiting_there: Requests in its own queue, as far as it shows them.
        in_flight: Our requests that it has.
        warm_ups: Our warm-ups that it has.
        window: Requests that it may have at once.
        ready: Whether it may be sent anything now: it does not after it has refused requests.
    """

    waiting_here: float
    waiting_there: float
    in_flight: int
    warm_ups: int
    window: float
    ready: bool = True

    def reason_against(self) -> str:
        """Why no warm-up is sent now; "" if there is room for one."""
        if self.waiting_here:
            return "requests wait to be sent"
        if self.waiting_there:
            return "requests wait at the server"
        if self.warm_ups >= MOST_WARM_UPS:
            return "other prompts are warmed"
        if not self.ready or self.in_flight + self.warm_ups + 1 > self.window:
            return "the server has as many requests as it computes at once"
        return ""

    @property
    def excess(self) -> int:
        """Warm-ups that have to go, since requests have come that need their room."""
        return int(max(0.0, min(self.warm_ups, self.in_flight + self.warm_ups - self.window)))

"""Contexts that are computed again and again: seen in what requests took, answered by the gate.

A gate that lets too many runs in shows: a run comes back for its next generation and the KV of the
one before is gone. When a fifth of the engine's time over five seconds went into computing such KV
again, less may be set aside by a fifth, up to three times; when it is below a tenth, or nothing is
told any more, that is taken back step by step. It goes by time and not by tokens: where prompts are
cheap to compute, holding runs back costs more than computing their contexts again.
"""

from __future__ import annotations

WINDOW_S = 5.0
HIGH_SHARE = 0.2
LOW_SHARE = 0.1
STEP = 0.8
MOST_STEPS = 3
ROUNDING_TOKENS = 32
"""What a context is found short of though nothing is lost: a part of a page, and the last token."""


class Thrashing:
    """How far the gate is lowered.

    Attributes:
        steps: So many times, by a fifth each; 0 to 3.
    """

    __slots__ = ("_again_s", "_looked_at_s", "steps")

    def __init__(self) -> None:
        self.steps = 0
        self._looked_at_s = 0.0
        self._again_s: dict[int, float] = {}  # by second, of the last few

    def note(self, at_s: float, again_s: float) -> bool:
        """A generation ended; whether the gate is lowered or raised by that.

        Args:
            at_s: When.
            again_s: Time of the engine's that went into what had been computed before.
        """
        second = int(at_s)
        oldest = at_s - WINDOW_S - 1.0
        self._again_s = {at: time_s for at, time_s in self._again_s.items() if at > oldest}
        if again_s > 0.0:
            self._again_s[second] = self._again_s.get(second, 0.0) + again_s
        before = self.steps
        self.settle(at_s)
        return self.steps != before

    def share_at(self, now_s: float) -> float:
        """Of the time of the last five seconds, what went into computing again."""
        return sum(s for at, s in self._again_s.items() if at > now_s - WINDOW_S) / WINDOW_S

    def steps_at(self, now_s: float) -> int:
        """How far the gate is lowered now: looked at anew every five seconds."""
        windows = int((now_s - self._looked_at_s) / WINDOW_S)
        if windows < 1:
            return self.steps
        share = self.share_at(now_s)
        if share > HIGH_SHARE:
            return min(MOST_STEPS, self.steps + 1)
        return max(0, self.steps - windows) if share < LOW_SHARE else self.steps

    def settle(self, now_s: float) -> None:
        """What was so at this instant is decided."""
        if now_s >= self._looked_at_s + WINDOW_S:
            self.steps = self.steps_at(now_s)
            self._looked_at_s = now_s

    @property
    def wake_s(self) -> float | None:
        """When to look again though nothing is told; None while nothing is lowered."""
        return self._looked_at_s + WINDOW_S if self.steps else None

"""Thrashing: contexts that are recomputed again and again, and the limit lowered in response.

If too many runs are admitted, a run returns for its next generation and finds the KV of the last
one evicted. If over five seconds a fifth of the engine's time went into recomputing such KV, the
limit is lowered by a fifth, up to three times. Below a tenth, or without reports, that is undone
step by step. It is measured in time, not tokens: where prefills are cheap, holding runs back costs
more than recomputing their contexts.
"""

from __future__ import annotations

WINDOW_S = 5.0
HIGH_SHARE = 0.2
LOW_SHARE = 0.1
STEP = 0.8
MAX_STEPS = 3
ROUNDING_TOKENS = 32
"""Tokens by which a context falls short though nothing is lost: part of a page, the last token."""


class Thrashing:
    """How far the limit is lowered.

    Attributes:
        steps: Number of reductions, by a fifth each; 0 to 3.
    """

    __slots__ = ("_recompute_s", "_window_began_s", "steps")

    def __init__(self) -> None:
        self.steps = 0
        self._window_began_s = 0.0
        self._recompute_s: dict[int, float] = {}  # by second, of the last few

    def note_recompute(self, at_s: float, recompute_s: float) -> bool:
        """Note an ended generation; returns whether the limit has changed.

        Args:
            at_s: Instant of the end.
            recompute_s: Time of the engine spent on recomputing.
        """
        second = int(at_s)
        oldest = at_s - WINDOW_S - 1.0
        self._recompute_s = {at: time_s for at, time_s in self._recompute_s.items() if at > oldest}
        if recompute_s > 0.0:
            self._recompute_s[second] = self._recompute_s.get(second, 0.0) + recompute_s
        before = self.steps
        self.end_window(at_s)
        return self.steps != before

    def share_at(self, now_s: float) -> float:
        """Share of the last five seconds spent on recomputing."""
        return sum(s for at, s in self._recompute_s.items() if at > now_s - WINDOW_S) / WINDOW_S

    def steps_at(self, now_s: float) -> int:
        """Number of reductions now; updated every five seconds."""
        windows = int((now_s - self._window_began_s) / WINDOW_S)
        if windows < 1:
            return self.steps
        share = self.share_at(now_s)
        if share > HIGH_SHARE:
            return min(MAX_STEPS, self.steps + 1)
        return max(0, self.steps - windows) if share < LOW_SHARE else self.steps

    def end_window(self, now_s: float) -> None:
        """Fix the number of reductions at this instant."""
        if now_s >= self._window_began_s + WINDOW_S:
            self.steps = self.steps_at(now_s)
            self._window_began_s = now_s

    @property
    def next_window_s(self) -> float | None:
        """End of the window, which may raise the limit; None if it is not lowered."""
        return self._window_began_s + WINDOW_S if self.steps else None

"""Rests of look-ups: a sequence for which nothing pays is looked up in a part of its steps."""

from __future__ import annotations

from agentrt.engine.sequence.sequence import Sequence

_LOOKUP_SHARE = 0.02
"""Share of a step that look-ups without a draft may take, as far as the longest rest allows."""

_FREE_MISSES = 4
"""Look-ups in vain before the first rest: between two passages of a copy are a few new words."""

_LONGEST_REST_STEPS = 15


class LookupRests:
    """Steps for which each sequence is not looked up.

    Attributes:
        longest_steps: Longest rest by what a look-up costs; 0 looks up in each step.
    """

    def __init__(self) -> None:
        self.longest_steps = 0
        self._left: dict[Sequence, int] = {}
        self._misses: dict[Sequence, int] = {}

    def note_cost(self, cost: float) -> None:
        """Learn the time of a look-up by a sequence's share of a step."""
        self.longest_steps = min(_LONGEST_REST_STEPS, int(cost / _LOOKUP_SHARE))

    def is_resting(self, sequence: Sequence) -> bool:
        """Whether the sequence is passed over in this step; counts the step."""
        if self.longest_steps == 0:
            return False
        left = self._left.get(sequence, 0)
        if left > 0:
            self._left[sequence] = left - 1
        return left > 0

    def note(self, sequence: Sequence, *, found: bool) -> None:
        """Note a look-up; behind one in vain a rest begins, each after another a step longer."""
        if found:
            self.forget(sequence)
        elif self.longest_steps:
            misses = self._misses[sequence] = self._misses.get(sequence, 0) + 1
            self._left[sequence] = max(0, min(misses - _FREE_MISSES, self.longest_steps))

    def forget(self, sequence: Sequence) -> None:
        """Forget a sequence that got a draft, or has finished."""
        self._left.pop(sequence, None)
        self._misses.pop(sequence, None)

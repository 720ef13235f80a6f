"""The arrivals of programs on the clock by which their latencies are counted: tokens served. Pure.

By the wall's clock, a machine that others use as well is loaded more at the same rate, and what the
arms are compared at is another load for each. Tokens that a fleet puts out are the same on any
machine. A fleet without programs puts out none: then the next program arrives at once, and the
clock goes on from its instant.
"""

from __future__ import annotations

from collections.abc import Sequence


class ArrivalSchedule:
    """The arrivals of one play.

    Args:
        due_tokens: Instants at which programs arrive, in tokens served, in their order.

    Example:
        >>> schedule = ArrivalSchedule([50.0, 120.0, 130.0])
        >>> schedule.look(0.0), schedule.look(60.0), schedule.look(75.0)
        ([0], [], [1])
    """

    def __init__(self, due_tokens: Sequence[float]) -> None:
        self._due_tokens = due_tokens
        self._next = 0
        self._under_way = 0
        self._skipped_tokens = 0.0

    def look(self, served_tokens: float) -> list[int]:
        """Numbers of the programs that arrive now.

        Args:
            served_tokens: Tokens that the fleet has put out since the beginning.
        """
        found: list[int] = []
        while self._next < len(self._due_tokens):
            missing = self._due_tokens[self._next] - self._skipped_tokens - served_tokens
            if missing > 0:
                if self._under_way:
                    break
                self._skipped_tokens += missing
            found.append(self._next)
            self._next += 1
            self._under_way += 1
        return found

    def end(self) -> None:
        """Note the end of a program."""
        self._under_way -= 1

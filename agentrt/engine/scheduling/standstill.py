"""While nobody who waits can come in: not asking all of them again each step.

With memory short and a long line, working out again that nobody fits takes a fifth of a small
model's step: 10 us a request (2.8 GHz). What could let one in is an end, a request or a fact that
arrives, a prompt that grows, pages that come free. Time alone only changes their order, which is
looked at anew as often as places are.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.scheduling.token_budget import Cause
from agentrt.engine.sequence.sequence import Sequence
from agentrt.scheduler.policies.priority_key import FRESH_STEPS

_LASTING: frozenset[Cause] = frozenset(("pages", "slots"))
"""What stays so from step to step; a step's budget, or a prefix that is computed, does not."""


class UnchangedQueue:
    """Whether the line stands still.

    Args:
        paging: The memory that is too short.
    """

    def __init__(self, paging: KvAllocator) -> None:
        self._paging = paging
        self._waiting: list[Sequence] = []
        self._causes: Mapping[Sequence, Cause] = {}
        self._pages = 0
        self._passed_steps = 0
        self._left_steps = 0

    def passes(self, waiting: list[Sequence]) -> bool:
        """Whether in this step nobody needs to be asked; the step is counted then."""
        lasts = (
            self._left_steps > 0
            and self._paging.available_pages <= self._pages
            and waiting == self._waiting
        )
        if lasts:
            self._left_steps -= 1
            self._passed_steps += 1
        return lasts

    def begin(self, waiting: list[Sequence], causes: Mapping[Sequence, Cause]) -> None:
        """All of these have just been asked, and why they wait on.

        Args:
            waiting: Those that wanted to come in.
            causes: Of those that could not.
        """
        if len(causes) < len(waiting) or not _LASTING.issuperset(causes.values()):
            return
        self._waiting, self._causes = waiting, causes
        self._pages = self._paging.available_pages
        self._left_steps = FRESH_STEPS - 1

    def end(self) -> None:
        """Something has happened that may let one in."""
        self._left_steps = 0

    def take_passed(self) -> tuple[Mapping[Sequence, Cause], int]:
        """Why they waited on in the steps in which they were not asked, and how many; once."""
        passed, self._passed_steps = self._passed_steps, 0
        return self._causes, passed

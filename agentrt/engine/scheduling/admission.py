"""Who may come in to compute: as long as what those inside will grow to has room in memory.

A fork is let in as a wave: as many of its branches as fit with what they are expected to produce,
the rest when those are done. Letting in all whose prompts fit would have them take each other's
pages in the middle of their outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentrt.base.ids import RequestId
from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.scheduling.token_budget import Cause, common_tokens, prefix_owner
from agentrt.engine.sequence.sequence import Sequence

_MOST_PASSED_BY = 16
"""How many may go ahead of one that does not fit; then nobody comes in before it."""

_MOST_TRIED = 4
"""How many that do not fit are tried in a step before the others are not even asked."""


class BatchAdmission:
    """Lets sequences in, one step after the other.

    Args:
        paging: The memory.
        running: Those inside.

    Attributes:
        starved: Those that do not fit though nobody else is inside.
        causes: Those that wanted to come in in this step and are still outside, and why.
        is_shut: Nobody comes in any more in this step.
        has_no_idle: Somebody waits for each of those inside.
    """

    def __init__(self, paging: KvAllocator, running: Mapping[RequestId, Sequence]) -> None:
        self._paging = paging
        self._running = running
        self.starved: list[Sequence] = []
        self.causes: dict[Sequence, Cause] = {}
        self.is_shut = False
        self.has_no_idle = False
        self._under_way: list[Sequence] = []
        self._blocked: list[Sequence] = []
        self._kept_slots = 0
        self._spare_pages: int | None = None

    def open(self, waiting: list[Sequence]) -> None:
        """A new step: these want to come in."""
        cause: Cause = "budget" if self._paging.free_slots else "slots"
        self.causes = dict.fromkeys(waiting, cause)
        self.is_shut = False
        self.has_no_idle = False
        self._under_way = [one for one in self._running.values() if one.prefills]
        self._blocked = []
        self._kept_slots = 0
        self._spare_pages = None

    def shut(self, cause: Cause) -> None:
        """Nobody comes in any more in this step."""
        self.is_shut = True
        for sequence, known in self.causes.items():
            if known == "budget":
                self.causes[sequence] = cause

    def owner(self, sequence: Sequence, matched_tokens: int) -> Sequence | None:
        """Who inside is about to compute what `sequence` would compute too."""
        keys = [one.key for one in self._under_way]
        at = prefix_owner(sequence.key, matched_tokens, keys, self._paging.page_tokens)
        return None if at is None else self._under_way[at]

    def admit(self, sequence: Sequence, matched_tokens: int, make_way: Callable[[], bool]) -> bool:
        """Let one in, if it fits; it gets a slot and the pages of what the tree knows.

        Args:
            sequence: Wants to come in.
            matched_tokens: What is known of it already.
            make_way: Has somebody inside leave for it; False when nobody would.
        """
        if self._blocked and not sequence.is_wanted:  # it would be sent out for them again
            self.causes[sequence] = "pages"
            return False
        while self._paging.free_slots <= self._kept_slots:
            if not make_way():
                self.causes[sequence] = "slots"
                return False
        while not self._fits(sequence, matched_tokens):
            if not make_way():
                self._refuse(sequence)
                return False
        del self.causes[sequence]
        for other in self._blocked:
            other.standing.passed_by += 1
        if sequence.prefills:
            self._under_way.append(sequence)
        if self._spare_pages is not None:
            self._spare_pages += self._growth(sequence)
        return True

    def keep_room(self, sequence: Sequence, owner: Sequence) -> None:
        """For this step, keep a place for one that waits for `owner` to compute their prefix."""
        shared = common_tokens(sequence.key, owner.key) // self._paging.page_tokens
        self._kept_slots += 1
        self._spare_pages = self._spare() + self._growth(sequence) - shared

    def extended(self, pages: int) -> None:
        """Somebody inside got pages that were spared for them."""
        if self._spare_pages is not None:
            self._spare_pages -= pages

    def left(self) -> None:
        """Somebody inside has lost all pages."""
        self._spare_pages = None
        self._under_way = [
            one for one in self._under_way if one.request.request_id in self._running
        ]

    def _fits(self, sequence: Sequence, matched_tokens: int) -> bool:
        paging, spare_pages = self._paging, self._wanted_beside(sequence)
        if not paging.has_room(sequence, matched_tokens, spare_pages):
            return False
        return paging.admit(sequence, spare_pages)

    def _refuse(self, sequence: Sequence) -> None:
        self.causes[sequence] = "pages"
        if not self._running:
            self.starved.append(sequence)
            return
        self._blocked.append(sequence)
        if sequence.standing.passed_by >= _MOST_PASSED_BY or len(self._blocked) >= _MOST_TRIED:
            self.shut("pages")

    def _wanted_beside(self, sequence: Sequence) -> int:
        """Pages that must be there beside those of its prompt; none where nobody else is inside."""
        return self._spare() + self._growth(sequence, whole=False) if self._running else 0

    def _spare(self) -> int:
        if self._spare_pages is None:
            self._spare_pages = sum(self._growth(one) for one in self._running.values())
        return self._spare_pages

    def _growth(self, sequence: Sequence, *, whole: bool = True) -> int:
        """Pages that a sequence will want beyond those it has, as far as is known; at least 1.

        Args:
            sequence: Inside, or about to come in.
            whole: Count its prompt too, and not only what comes after it.
        """
        produced = sequence.output_tokens if sequence.complete else 0
        expected = min(int(sequence.facts.output_tokens), sequence.most_output_tokens)
        size = self._paging.page_tokens
        last = -(-(sequence.prompt_tokens + max(expected, produced + 1)) // size)
        have = len(sequence.pages) if whole else -(-(len(sequence.tokens) + 1) // size)
        return max(1 if whole else 0, last - have)

"""Admission of waiting sequences into the batch, as far as their expected KV growth fits.

A fork is admitted in waves: as many branches as fit with their expected outputs, the others once
those have finished. If every branch with a fitting prompt were admitted, the branches would
preempt each other in the middle of their outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentrt.base.ids import RequestId
from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.scheduling.token_budget import WaitCause, prefix_owner
from agentrt.engine.sequence.sequence import Sequence
from agentrt.kv_cache.node import TOKEN_BYTES, common_bytes
from agentrt.scheduler.policies.priority_key import REFRESH_STEPS

_MAX_OVERTAKEN = 16
"""Times that a sequence which does not fit may be overtaken; then nothing is admitted before it."""

_MAX_REFUSALS = 4
"""Sequences that may be refused for lack of pages before admission closes for the step."""

_LASTING: frozenset[WaitCause] = frozenset(("pages", "slots"))
"""Causes that hold from step to step; a step's budget and a prefix being computed do not."""


class BatchAdmission:
    """Admits sequences to the batch, step by step.

    Args:
        allocator: Allocates slots and pages.
        running: Sequences in the batch.

    Attributes:
        unschedulable: Sequences that do not fit although nothing else runs.
        causes: Sequences that wait in this step, each with the reason.
        is_closed: Nothing more is admitted in this step.
        nothing_preemptible: Every running sequence is a foreground one.
    """

    def __init__(self, allocator: KvAllocator, running: Mapping[RequestId, Sequence]) -> None:
        self._allocator = allocator
        self._running = running
        self.unschedulable: list[Sequence] = []
        self.begin_step([])

    def begin_step(self, waiting: list[Sequence]) -> None:
        """Open admission for a new step with these sequences waiting."""
        cause: WaitCause = "budget" if self._allocator.free_slots else "slots"
        self.causes: dict[Sequence, WaitCause] = dict.fromkeys(waiting, cause)
        self.is_closed = False
        self.nothing_preemptible = False
        self._prefilling = [one for one in self._running.values() if one.is_prefilling]
        self._refused: list[Sequence] = []
        self._reserved_slots = 0
        self._reserved_pages: int | None = None

    def close(self, cause: WaitCause) -> None:
        """Admit nothing more in this step, because of `cause`."""
        self.is_closed = True
        for sequence, known in self.causes.items():
            if known == "budget":
                self.causes[sequence] = cause

    def prefix_owner(self, sequence: Sequence, cached_tokens: int) -> Sequence | None:
        """The running sequence that is about to compute a prefix which `sequence` needs."""
        keys = [one.key for one in self._prefilling]
        index = prefix_owner(sequence.key, cached_tokens, keys)
        return None if index is None else self._prefilling[index]

    def admit(self, sequence: Sequence, cached_tokens: int, preempt: Callable[[], bool]) -> bool:
        """Allocate a slot and the cached pages to `sequence`, if it fits.

        Args:
            sequence: The waiting sequence.
            cached_tokens: Tokens of it that the cache has.
            preempt: Preempts a running sequence for it; returns False if none may be preempted.
        """
        if self._refused and not sequence.is_foreground:  # those would preempt it again
            self.causes[sequence] = "pages"
            return False
        while self._allocator.free_slots <= self._reserved_slots:
            if not preempt():
                self.causes[sequence] = "slots"
                return False
        while not self._fits(sequence, cached_tokens):
            if not preempt():
                self._refuse(sequence)
                return False
        del self.causes[sequence]
        for other in self._refused:
            other.queue_state.overtaken += 1
        if sequence.is_prefilling:
            self._prefilling.append(sequence)
        if self._reserved_pages is not None:
            self._reserved_pages += self._growth_pages(sequence)
        return True

    def reserve(self, sequence: Sequence, owner: Sequence) -> None:
        """Reserve a slot and pages in this step for a sequence that waits for `owner`'s prefix."""
        page_bytes = self._allocator.page_tokens * TOKEN_BYTES
        shared = common_bytes(sequence.key, owner.key, page_bytes) // page_bytes
        self._reserved_slots += 1
        self._reserved_pages = self._expected_growth() + self._growth_pages(sequence) - shared

    def use_reserved_pages(self, pages: int) -> None:
        """Note that a running sequence was given pages reserved for its growth."""
        if self._reserved_pages is not None:
            self._reserved_pages -= pages

    def note_release(self) -> None:
        """Note that a running sequence has lost its pages."""
        self._reserved_pages = None
        self._prefilling = [
            one for one in self._prefilling if one.request.request_id in self._running
        ]

    def _fits(self, sequence: Sequence, cached_tokens: int) -> bool:
        allocator = self._allocator
        spare_pages = 0
        if self._running:
            spare_pages = self._expected_growth() + self._growth_pages(sequence, with_prompt=False)
        if not allocator.may_fit(sequence, cached_tokens, spare_pages):
            return False
        return allocator.allocate(sequence, spare_pages)

    def _refuse(self, sequence: Sequence) -> None:
        self.causes[sequence] = "pages"
        if not self._running:
            self.unschedulable.append(sequence)
            return
        self._refused.append(sequence)
        overtaken = sequence.queue_state.overtaken
        if overtaken >= _MAX_OVERTAKEN or len(self._refused) >= _MAX_REFUSALS:
            self.close("pages")

    def _expected_growth(self) -> int:
        """Pages that the running sequences are expected to need beyond those they have."""
        if self._reserved_pages is None:
            self._reserved_pages = sum(self._growth_pages(one) for one in self._running.values())
        return self._reserved_pages

    def _growth_pages(self, sequence: Sequence, *, with_prompt: bool = True) -> int:
        """Pages that a sequence is expected to need beyond those it has; at least 1.

        Args:
            sequence: Running, or about to be admitted.
            with_prompt: Count the rest of its prompt too, not only its output.
        """
        produced = sequence.output_tokens if sequence.complete else 0
        expected = min(int(sequence.info.output_tokens), sequence.max_output_tokens)
        size = self._allocator.page_tokens
        last = -(-(sequence.prompt_tokens + max(expected, produced + 1)) // size)
        allocated = len(sequence.pages) if with_prompt else -(-(len(sequence.tokens) + 1) // size)
        return max(1 if with_prompt else 0, last - allocated)


class UnchangedQueue:
    """Memo of a round in which nothing could be admitted; equal rounds are skipped.

    With little memory and a long queue, refusing every sequence again takes a fifth of a small
    model's step: 10 us a request (2.8 GHz). Only an end, a new request, new scheduling info, a
    longer prompt or freed pages can admit one. Time alone only changes the order, which is looked
    at again as often as priority keys are.

    Args:
        allocator: Source of the number of available pages.
    """

    def __init__(self, allocator: KvAllocator) -> None:
        self._allocator = allocator
        self._waiting: list[Sequence] = []
        self._causes: Mapping[Sequence, WaitCause] = {}
        self._available_pages = 0
        self._skipped_steps = 0
        self._valid_steps = 0

    def skip_step(self, waiting: list[Sequence]) -> bool:
        """Whether admission may be skipped in this step; counts the step if so."""
        unchanged = (
            self._valid_steps > 0
            and self._allocator.available_pages <= self._available_pages
            and waiting == self._waiting
        )
        if unchanged:
            self._valid_steps -= 1
            self._skipped_steps += 1
        return unchanged

    def remember(self, waiting: list[Sequence], causes: Mapping[Sequence, WaitCause]) -> None:
        """Remember a round, if nothing was admitted for reasons that last.

        Args:
            waiting: Sequences that asked for admission.
            causes: Reason of each sequence that was not admitted.
        """
        if len(causes) < len(waiting) or not _LASTING.issuperset(causes.values()):
            return
        self._waiting, self._causes = waiting, causes
        self._available_pages = self._allocator.available_pages
        self._valid_steps = REFRESH_STEPS - 1

    def invalidate(self) -> None:
        """Forget the round: an event may let a sequence in."""
        self._valid_steps = 0

    def take_skipped(self) -> tuple[Mapping[Sequence, WaitCause], int]:
        """Causes of waiting in the steps skipped since the last call, and their number."""
        skipped, self._skipped_steps = self._skipped_steps, 0
        return self._causes, skipped

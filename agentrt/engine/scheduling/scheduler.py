"""Scheduler of the engine (continuous batching): sequences of a step, and their tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from agentrt.base.config import EngineConfig
from agentrt.base.ids import RequestId
from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.scheduling.admission import BatchAdmission, UnchangedQueue
from agentrt.engine.scheduling.ahead import AheadPrefills
from agentrt.engine.scheduling.preemption import preemption_victim
from agentrt.engine.scheduling.prompt_yield import PromptYield
from agentrt.engine.scheduling.token_budget import TokenBudget
from agentrt.engine.scheduling.waiting_queue import WaitingQueue
from agentrt.engine.sequence.sequence import Phase, Sequence
from agentrt.protocol.backend import GenerateRequest, SchedulingInfo
from agentrt.scheduler.order.order import OVERDUE_SHARE

ScheduledSequence = tuple[Sequence, int]
"""A sequence and the number of its tokens that a step computes."""


class Scheduler:
    """All unfinished sequences, and the schedule of each step.

    Args:
        config: Config of the engine.
        allocator: Allocator of the KV pages.
        rope_threshold: Length beyond which a sequence has other angles; 0 if there is none.

    Attributes:
        running: Sequences that hold a slot, in the order in which they got it.
        queue: Order of the waiting sequences.
        ahead: Sequences of prompts that are only expected.
        prompt_yield: Decides which prompts wait for more urgent decodes.
        failed: Errors of sequences that could not be scheduled; the caller ends them and clears it.
    """

    def __init__(
        self, config: EngineConfig, allocator: KvAllocator, rope_threshold: int = 0
    ) -> None:
        self._config = config
        self._rope_threshold = rope_threshold
        self._allocator = allocator
        self._sequences: dict[RequestId, Sequence] = {}
        self.running: dict[RequestId, Sequence] = {}
        self.queue = WaitingQueue(config, allocator)
        self.ahead = AheadPrefills(allocator)
        self.prompt_yield = PromptYield(self.queue.urgency, allocator)
        self.failed: dict[Sequence, Exception] = {}
        self._admission = BatchAdmission(allocator, self.running)
        self._unchanged = UnchangedQueue(allocator)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(list(self._sequences.values()))

    def __len__(self) -> int:
        return len(self._sequences)

    @property
    def waiting_count(self) -> int:
        """Sequences that are not in the batch, whatever they wait for; not those ahead."""
        return len(self._sequences) - len(self.running) - len(self.ahead)

    def find(self, request_id: RequestId) -> Sequence | None:
        """The sequence of an unfinished request."""
        return self._sequences.get(request_id)

    @property
    def unschedulable(self) -> list[Sequence]:
        """Sequences that can never fit; the caller ends them and clears the list."""
        return self._admission.unschedulable

    def add_sequence(self, sequence: Sequence) -> None:
        """Add a new sequence."""
        sequence.rope_threshold = self._rope_threshold
        self._sequences[sequence.request.request_id] = sequence
        if sequence.request.ahead:
            self.ahead.add(sequence)

    def extend_prompt(self, sequence: Sequence, token_ids: tuple[int, ...]) -> None:
        """Append tokens to an incomplete prompt."""
        sequence.tokens += token_ids
        sequence.prompt_tokens = len(sequence.tokens)
        if sequence.phase is Phase.HELD:
            sequence.phase = Phase.WAITING
        self._unchanged.invalidate()

    def initial_info(self, request: GenerateRequest, now_s: float) -> SchedulingInfo:
        """Scheduling info of a new request: what came with it, else what the engine knows."""
        info = request.info
        if info is not None and info.run_started_at_s:
            return info
        others = (one.info for one in self._sequences.values())
        same_run = (one.run_started_at_s for one in others if one.run_id == request.run_id)
        started_at_s = min(same_run, default=request.submitted_at_s)
        if info is not None:
            return replace(info, run_started_at_s=started_at_s)
        return SchedulingInfo(
            request.request_id,
            request.demanded,
            request.deadline_at_s,
            run_started_at_s=started_at_s,
            run_id=request.run_id,
            waiting=1,
            as_of_s=now_s,
        )

    def update_info(self, info: SchedulingInfo) -> None:
        """Replace a request's scheduling info; a finished request is ignored.

        The start of its run and its true remaining service stay known once they were.
        """
        sequence = self._sequences.get(info.request_id)
        if sequence is None:
            return
        known = sequence.info
        if not info.run_started_at_s:
            info = replace(info, run_started_at_s=known.run_started_at_s)
        if info.true_rest_s is None and known.true_rest_s is not None:
            info = replace(info, true_rest_s=known.true_rest_s)
        sequence.info = info
        self._unchanged.invalidate()

    def remove_sequence(self, sequence: Sequence) -> None:
        """Remove a finished or aborted sequence; its KV stays in the radix tree."""
        self._release(sequence)
        self.ahead.remove(sequence)
        del self._sequences[sequence.request.request_id]

    @property
    def has_runnable(self) -> bool:
        """Whether a step would compute anything."""
        return any(one.phase is not Phase.HELD for one in self._sequences.values())

    def schedule(self, now_s: float) -> list[ScheduledSequence]:
        """Schedule the next step; sequences are admitted, preempted and given pages here."""
        if self._rope_threshold:
            self._switch_angles(now_s)
        budget = TokenBudget(self._config.step_tokens)
        self._schedule_decodes(budget, now_s)
        self._schedule_prefills(budget, now_s)
        if self.ahead and not budget.scheduled_tokens and self._is_idle:
            return self.ahead.schedule(now_s)
        return [
            (self.running[request_id], count)
            for request_id, count in budget.scheduled_tokens.items()
        ]

    @property
    def _is_idle(self) -> bool:
        """Whether nothing is to be computed for a request, now or once its grammar is compiled."""
        others = self._sequences.values()
        return not self.running and not any(
            one.phase is Phase.WAITING or one.compiling for one in others
        )

    def _switch_angles(self, now_s: float) -> None:
        """Give sequences past the threshold other angles: their KV is computed anew.

        What they have computed stays in the radix tree, for sequences within the threshold.
        """
        for sequence in self._sequences.values():
            if not sequence.has_outgrown_angles or sequence.in_flight:
                continue
            if sequence.phase is Phase.RUNNING:
                self._preempt(sequence, now_s)
            sequence.take_long_angles()
            self._unchanged.invalidate()

    def hold(self, sequence: Sequence) -> None:
        """Release an incomplete prompt of which every known token is computed, until it grows."""
        self._release(sequence)
        sequence.phase = Phase.HELD

    def _release(self, sequence: Sequence) -> None:
        self._allocator.free(sequence)
        self._unchanged.invalidate()
        sequence.admitted_overdue = False
        self.running.pop(sequence.request.request_id, None)

    def _schedule_decodes(self, budget: TokenBudget, now_s: float) -> None:
        """Schedule all pending tokens of the sequences that will yield a token."""
        size, chunk_tokens = self._config.page_tokens, self._config.prefill_chunk_tokens
        for sequence in list(self.running.values()):
            computed = sequence.computed_tokens
            if computed < sequence.prompt_tokens or sequence.phase is not Phase.RUNNING:
                continue
            # `pending_tokens` inlined for the common case: a decode has its whole prompt.
            known = len(sequence.tokens)
            pending = sequence.pending_tokens(size) if sequence.in_flight else known - computed
            if pending <= chunk_tokens:
                scheduled = budget.grant(sequence.request.request_id, pending, pending)
                if computed + scheduled > len(sequence.pages) * size:
                    self._allocate_pages(sequence, scheduled, budget, now_s)

    def _schedule_prefills(self, budget: TokenBudget, now_s: float) -> None:
        """Schedule chunks of prompts, running or waiting, in priority order (chunked prefill)."""
        scheduled = budget.scheduled_tokens
        prefilling = [one for key, one in self.running.items() if key not in scheduled]
        waiting = self._waiting() if len(self._sequences) > len(self.running) else []
        if not prefilling and (not waiting or self._unchanged.skip_step(waiting)):
            return
        self.queue.note_waiting(*self._unchanged.take_skipped())
        admission = self._admission
        admission.begin_step(waiting)
        if budget.remaining_tokens:
            may_admit = self._allocator.free_slots or self._may_preempt_background(waiting)
            ordered = self.queue.sort(now_s, prefilling + waiting if may_admit else prefilling)
            if self.queue.prompts_yield:
                decoding = [self.running[request_id] for request_id in scheduled]
                self.prompt_yield.begin_step(decoding, len(ordered))
            if not self.queue.long_steps:
                budget.remaining_tokens = self.prompt_yield.limit_tokens(budget.remaining_tokens)
            if len(ordered) > 1:
                self._schedule_overdue(ordered, budget, now_s)
            for sequence in ordered:
                if not budget.remaining_tokens:
                    break
                if admission.is_closed and sequence.phase is Phase.WAITING:
                    continue
                if self.queue.prompts_yield and self.prompt_yield.yields(now_s, sequence):
                    if sequence in admission.causes:
                        admission.causes[sequence] = "decodes"
                    continue
                self._schedule_prefill(sequence, budget, self._config.prefill_chunk_tokens, now_s)
        self.queue.note_waiting(admission.causes)
        self._unchanged.remember(waiting, admission.causes)

    def _waiting(self) -> list[Sequence]:
        found = [
            one
            for one in self._sequences.values()
            if one.phase is Phase.WAITING and not one.in_flight
        ]
        unschedulable = self.unschedulable
        return [one for one in found if one not in unschedulable] if unschedulable else found

    def _schedule_overdue(self, ordered: list[Sequence], budget: TokenBudget, now_s: float) -> None:
        """Schedule overdue sequences first, within a small share of the step's tokens and slots.

        Nothing else is admitted before the first of them, whatever that takes.
        """
        config = self._config
        overdue_tokens = max(config.page_tokens, int(OVERDUE_SHARE * config.step_tokens))
        slots = max(1, int(OVERDUE_SHARE * config.max_running))
        slots -= sum(one.admitted_overdue for one in self.running.values())
        for sequence in self.queue.overdue(now_s, ordered):
            before = budget.remaining_tokens
            if not before or overdue_tokens <= 0:
                return
            waits = sequence.phase is Phase.WAITING
            if waits and slots <= 0:
                continue
            self._schedule_prefill(sequence, budget, overdue_tokens, now_s)
            overdue_tokens -= before - budget.remaining_tokens
            if waits and sequence.phase is Phase.RUNNING:
                sequence.admitted_overdue = True
                slots -= 1
            elif self._admission.causes.get(sequence) == "pages":
                self._admission.close("pages")
                return

    def _schedule_prefill(
        self,
        sequence: Sequence,
        budget: TokenBudget,
        max_tokens: int,
        now_s: float,
        waiter: Sequence | None = None,
    ) -> None:
        """Schedule a chunk of a prompt, at most `max_tokens`; a waiting sequence is admitted first.

        Background sequences get what the foreground leaves: they may not lengthen its step.
        """
        try:
            is_background = not (waiter or sequence).is_foreground and self._has_foreground(budget)
            if is_background:
                max_tokens = min(max_tokens, budget.background_tokens)
                if not max_tokens:
                    return
            if sequence.phase is Phase.WAITING and not self._try_admit(sequence, budget, now_s):
                return
            if sequence.phase is not Phase.RUNNING:
                return
            before = budget.remaining_tokens
            pending = sequence.pending_tokens(self._config.page_tokens)
            scheduled = budget.grant(sequence.request.request_id, pending, max_tokens)
            if is_background:
                budget.background_tokens -= before - budget.remaining_tokens
            self._allocate_pages(sequence, scheduled, budget, now_s)
        except Exception as error:  # fails this sequence only
            self.failed[sequence] = error
            budget.revoke(sequence.request.request_id)
            self._admission.causes.pop(sequence, None)

    def _has_foreground(self, budget: TokenBudget) -> bool:
        """Whether the step serves a foreground sequence."""
        return any(self.running[request_id].is_foreground for request_id in budget.scheduled_tokens)

    def _try_admit(self, sequence: Sequence, budget: TokenBudget, now_s: float) -> bool:
        admission = self._admission
        if admission.is_closed or sequence not in admission.causes:
            return False  # one without a cause was preempted in this very step
        size = self._config.page_tokens
        cached_tokens = self._allocator.cached_tokens(sequence.key)
        # Less than a page is not worth a step: scored options compute it themselves.
        if sequence.computes_ahead and cached_tokens >= sequence.whole_pages(size):
            sequence.phase = Phase.HELD
            del admission.causes[sequence]
            return False
        owner = admission.prefix_owner(sequence, cached_tokens)
        if owner is not None:
            self._wait_for_prefix(owner, sequence, budget, now_s)
            return False
        if not admission.admit(
            sequence, cached_tokens, lambda: self._preempt_background(sequence, budget, now_s)
        ):
            return False
        self.queue.note_admission(sequence, len(budget.scheduled_tokens), now_s)
        sequence.start_running(now_s)
        self.running[sequence.request.request_id] = sequence
        return True

    def _may_preempt_background(self, waiting: list[Sequence]) -> bool:
        """Whether a foreground sequence waits while a background one runs."""
        has_background = any(not one.is_foreground for one in self.running.values())
        return has_background and any(one.is_foreground for one in waiting)

    def _preempt_background(self, sequence: Sequence, budget: TokenBudget, now_s: float) -> bool:
        """Preempt the least urgent background sequence; False if there is none."""
        if not sequence.is_foreground or self._admission.nothing_preemptible:
            return False
        background = [one for one in self.running.values() if not one.is_foreground]
        victim = self._victim(background, now_s)
        if victim is None:
            self._admission.nothing_preemptible = True
            return False
        budget.revoke(victim.request.request_id)
        self._preempt(victim, now_s)
        return True

    def _wait_for_prefix(
        self, owner: Sequence, sequence: Sequence, budget: TokenBudget, now_s: float
    ) -> None:
        """Wait for `owner` to compute the common prefix; schedule it now if it is not yet."""
        admission = self._admission
        admission.causes[sequence] = "prefix"
        same_run = owner.request.run_id == sequence.request.run_id
        has_waited = "prefix" in sequence.queue_state.passed_over
        if self.queue.groups_forks and same_run and not has_waited:
            admission.reserve(sequence, owner)
        if owner.request.request_id not in budget.scheduled_tokens:
            chunk_tokens = self._config.prefill_chunk_tokens
            self._schedule_prefill(owner, budget, chunk_tokens, now_s, waiter=sequence)

    def _allocate_pages(
        self, sequence: Sequence, tokens: int, budget: TokenBudget, now_s: float
    ) -> None:
        """Allocate pages for `tokens` more, preempting others or at last the sequence itself."""
        while tokens:
            new_pages = self._allocator.missing_pages(sequence, tokens)
            if self._allocator.extend(sequence, new_pages):
                self._admission.use_reserved_pages(new_pages)
                return
            if sequence.in_flight:  # its last token may have been drawn: preempt nothing for it
                budget.revoke(sequence.request.request_id)
                return
            victim = self._victim(self.running.values(), now_s)
            assert victim is not None
            budget.revoke(victim.request.request_id)
            if victim is sequence and len(self.running) == 1:
                self._release(sequence)
                sequence.phase = Phase.WAITING
                self.unschedulable.append(sequence)
                return
            self._preempt(victim, now_s)
            if victim is sequence:
                return

    def _preempt(self, sequence: Sequence, now_s: float) -> None:
        """Preempt a sequence; its KV stays in the radix tree while there is room for it."""
        metrics = sequence.metrics
        metrics.record_until(sequence.time_bucket, now_s)
        metrics.preemptions += 1
        self._release(sequence)
        self._admission.note_release()
        sequence.preempted = True
        sequence.phase = Phase.WAITING

    def _victim(self, candidates: Iterable[Sequence], now_s: float) -> Sequence | None:
        return preemption_victim(candidates, lambda one: self.queue.urgency(now_s, one))

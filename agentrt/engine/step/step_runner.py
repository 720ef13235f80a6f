"""The three parts of a step: its batch is launched, its tokens are sampled, its output collected.

With overlap the batch of the next step is launched between them, before the tokens of this one are
known on the host.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from dataclasses import dataclass
from typing import Any

from agentrt.base.clock import Clock
from agentrt.base.errors import record_of
from agentrt.engine.drafts.drafter import Drafter
from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.outputs import StepOutputs
from agentrt.engine.runner.executor import LaunchedBatch, ScheduledBatch, StepExecutor
from agentrt.engine.sampling.sequence_output import Finish
from agentrt.engine.scheduling.scheduler import ScheduledSequence, Scheduler
from agentrt.engine.sequence.metrics import Bucket
from agentrt.engine.sequence.sequence import Sequence
from agentrt.protocol.step_output import Admission, StepRecord


@dataclass(slots=True, eq=False)
class InFlightStep:
    """A step that was launched, or several equal ones.

    Attributes:
        scheduled: The scheduled batch.
        batch: The batch at the executor.
        decodes: For each sequence, whether its whole prompt was computed before.
        prefill_tokens: Prompt tokens in it.
        extra_rows: Tokens of decoding sequences in it beyond one each, drafts included.
        kv_tokens: Tokens whose KV its attention reads, for each sequence.
        admissions: Requests admitted into it.
    """

    scheduled: ScheduledBatch
    batch: LaunchedBatch
    decodes: list[bool]
    prefill_tokens: int
    extra_rows: int
    kv_tokens: int
    admissions: tuple[Admission, ...] = ()


class StepRunner:
    """Launches steps, samples their tokens, and records their results.

    Attributes:
        forwards: Forwards so far.
        decode_forwards: Forwards with at least one decoding sequence.
        step_s: Smoothed seconds between two steps.
    """

    def __init__(
        self,
        executor: StepExecutor[Any],
        scheduler: Scheduler,
        allocator: KvAllocator,
        outputs: StepOutputs,
        clock: Clock,
        drafter: Drafter,
    ) -> None:
        self._executor = executor
        self._drafter = drafter
        self._scheduler = scheduler
        self._allocator = allocator
        self._outputs = outputs
        self._clock = clock
        self._steps = 0
        self._ended_s = 0.0
        self.forwards = 0
        self.decode_forwards = 0
        self.step_s = 0.0

    def launch(
        self,
        sequences: list[ScheduledSequence],
        began_s: float,
        *,
        before_tokens: bool,
        max_steps: int,
    ) -> InFlightStep:
        """Start to compute a scheduled step; its tokens count as computed from here on.

        Args:
            sequences: The scheduled sequences, each with the number of tokens to compute.
            began_s: Instant at which scheduling began.
            before_tokens: Whether the tokens of the last step are not known yet.
            max_steps: Up to so many equal steps are computed at once.
        """
        waiting = self._scheduler.waiting_count
        drafts = self._drafter.plan(sequences, before_tokens=before_tokens)
        scheduled = ScheduledBatch(sequences, began_s, waiting, before_tokens, max_steps, drafts)
        decodes = [one.computed_tokens >= one.prompt_tokens for one, _ in scheduled.sequences]
        batch = self._executor.launch(scheduled)
        if self._executor.overlaps and not before_tokens and self._ended_s > 0.0:
            # A longer wait than a step is one for work.
            self._drafter.note_wait(min(self._clock.now_s() - self._ended_s, self.step_s))
        steps = batch.steps
        self.forwards += steps
        self.decode_forwards += steps * any(decodes)
        prefill_tokens = kv_tokens = 0
        extra_rows = scheduled.draft_rows
        for (sequence, count), decoded in zip(scheduled.sequences, decodes, strict=True):
            computed_tokens = sequence.computed_tokens + count
            kv_tokens += computed_tokens
            if steps > 1:
                self._allocator.extend(sequence, self._allocator.missing_pages(sequence, steps))
                computed_tokens += steps - 1
            sequence.computed_tokens = computed_tokens
            if computed_tokens > sequence.reached_tokens:
                sequence.reached_tokens = computed_tokens
            if decoded:
                extra_rows += count - 1
            else:
                prefill_tokens += count
                self._allocator.cache_prefix(sequence)  # its readers are launched later
        admissions = self._scheduler.queue.take_admissions()
        return InFlightStep(
            scheduled, batch, decodes, prefill_tokens, extra_rows, kv_tokens, admissions
        )

    def may_overlap(self, step: InFlightStep) -> bool:
        """Whether the next step may be launched before the tokens of this one are known.

        A draft follows known tokens only, and may save more than the wait for them costs. The chunk
        of a prompt that is only expected has a step of its own.
        """
        if not self._executor.overlaps or step.scheduled.drafts:
            return False
        if any(sequence.request.ahead for sequence, _ in step.scheduled.sequences):
            return False
        unfinished = filter(self._is_unfinished, step.batch.sampled)  # others are forgotten
        return not self._drafter.awaits_tokens(unfinished)

    def sample(self, step: InFlightStep) -> None:
        """Start to sample a token for each row with exactly the tokens that the batch assumed."""
        batch = step.batch
        extra_tokens = batch.steps - 1
        rows = [one for one in batch.rows if self._wants_token(one, extra_tokens)]
        self._executor.sample(batch, rows)
        for sequence in rows:
            sequence.in_flight = 1

    def complete(self, step: InFlightStep) -> list[StepRecord]:
        """Wait for the tokens, append them, and record the times; one record a step."""
        batch = step.batch
        for sequence in batch.sampled:
            sequence.in_flight = 0
        members = [
            (sequence, decoded)
            for (sequence, _), decoded in zip(step.scheduled.sequences, step.decodes, strict=True)
            if self._is_unfinished(sequence)
        ]
        all_unfinished = len(members) == len(step.scheduled.sequences)
        alive = [all_unfinished or self._is_unfinished(sequence) for sequence in batch.sampled]
        sampled = self._executor.collect(batch, alive)
        if sampled.verified:
            self._drafter.note_verified(sampled.verified)
        spans = batch.spans
        ended_s = spans[-1].ended_s if spans else self._clock.now_s()
        for sequence, decoded in members:
            bucket: Bucket = "decode" if decoded else "prefill"
            masks_s = sampled.masks_s.get(sequence.request.request_id, 0.0)
            sequence.metrics.record_step(bucket, ended_s, masks_s, len(members), batch.steps)
            page_tokens = self._allocator.page_tokens
            if sequence.request.ahead:
                self._scheduler.ahead.rest(sequence)
            elif sequence.computes_ahead and not sequence.pending_tokens(page_tokens):
                self._scheduler.hold(sequence)
        decode_tokens = 0
        finishes = dict(sampled.finishes)
        for sequence, is_unfinished in zip(batch.sampled, alive, strict=True):
            if is_unfinished:
                decode_tokens += 1
                if sequence.metrics.first_token_at_s == 0.0 and sequence.output_tokens:
                    sequence.metrics.first_token_at_s = ended_s
                try:
                    self._outputs.add_delta(sequence)
                except Exception as error:  # fails this sequence only
                    finishes[sequence] = Finish("failed", error=record_of(error))
        for sequence, finish in finishes.items():
            self._outputs.end(sequence, finish, ended_s)
        return self._records(step, members, decode_tokens, ended_s)

    def record_scored(self, scored: Rows[Sequence], began_s: float, ended_s: float) -> StepRecord:
        """Record a forward that scored options: a step of its own."""
        for sequence in scored:
            metrics = sequence.metrics
            if metrics.admitted_at_s == 0.0:  # all of its prompt was known
                metrics.cached_tokens += sequence.reached_tokens
            metrics.start_running("queue", began_s)
            metrics.record_step("decode", ended_s, 0.0, len(scored))
        self._ended_s = ended_s
        self._steps += 1
        return StepRecord(
            index=self._steps - 1,
            started_at_s=began_s,
            ended_at_s=ended_s,
            prefill_tokens=0,
            decode_tokens=len(scored),
            requests=tuple(sequence.request.request_id for sequence in scored),
        )

    def _records(
        self,
        step: InFlightStep,
        members: list[tuple[Sequence, bool]],
        decode_tokens: int,
        ended_s: float,
    ) -> list[StepRecord]:
        spans = step.batch.spans or ((max(step.scheduled.began_s, self._ended_s), ended_s),)
        requests = tuple(sequence.request.request_id for sequence, _ in members)
        records: list[StepRecord] = []
        for number, (began_s, until_s) in enumerate(spans):
            records.append(
                StepRecord(
                    index=self._steps,
                    started_at_s=began_s,
                    ended_at_s=until_s,
                    prefill_tokens=step.prefill_tokens,
                    decode_tokens=decode_tokens,
                    requests=requests,
                    kv_tokens=step.kv_tokens + number * len(step.scheduled.sequences),
                    waiting=step.scheduled.waiting,
                    extra_rows=step.extra_rows,
                )
            )
            seconds = until_s - began_s
            self.step_s = seconds if self._steps == 0 else 0.8 * self.step_s + 0.2 * seconds
            self._steps += 1
        self._ended_s = ended_s
        if not any(step.decodes):
            self._note_prefill(records[0])
        if not self._scheduler.queue.long_steps:
            for record in records:
                self._scheduler.prompt_yield.note_step(record)
        if self._drafter.is_adaptive:
            for record in records:
                self._drafter.note_step(record, step.scheduled.draft_rows)
        return records

    def _note_prefill(self, record: StepRecord) -> None:
        """Learn the speed of prefills, on which priorities and KV offload depend."""
        seconds = record.ended_at_s - record.started_at_s
        self._scheduler.queue.note_prefill(record.prefill_tokens, seconds)
        if self._executor.offload is not None:
            self._executor.offload.rates.note_prefill(record.prefill_tokens, seconds)

    def _is_unfinished(self, sequence: Sequence) -> bool:
        return self._scheduler.find(sequence.request.request_id) is sequence

    def _wants_token(self, sequence: Sequence, extra_tokens: int) -> bool:
        """Whether all tokens, and `extra_tokens` that are not known yet, are computed."""
        known = len(sequence.tokens) + extra_tokens
        return self._is_unfinished(sequence) and sequence.computed_tokens == known

"""A step in three acts: its batch is launched, its tokens are drawn, its results are told.

Between them other work may go: with overlap the batch of the next step is launched before the
tokens of this one are known here.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from dataclasses import dataclass
from typing import Any

from agentrt.base.clock import Clock
from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.outputs import StepOutputs
from agentrt.engine.runner.executor import LaunchedBatch, ScheduledBatch, StepExecutor
from agentrt.engine.scheduling.scheduler import Scheduler
from agentrt.engine.sequence.metrics import Bucket
from agentrt.engine.sequence.sequence import Sequence
from agentrt.protocol.step_output import Admission, StepRecord


@dataclass(slots=True, eq=False)
class InFlightStep:
    """A step that was launched, or several equal ones.

    Attributes:
        plan: The scheduled batch.
        batch: The batch at the executor.
        decodes: For each sequence, whether its prompt had been computed before.
        prefill_tokens: Prompt tokens in it.
        kv_tokens: Tokens whose KV its attention reads, for each sequence.
        admissions: Requests that got their place in it.
    """

    plan: ScheduledBatch
    batch: LaunchedBatch
    decodes: list[bool]
    prefill_tokens: int
    kv_tokens: int
    admissions: tuple[Admission, ...] = ()


class StepRunner:
    """Launches, draws, tells.

    Attributes:
        forwards: Forwards so far.
        decode_forwards: Forwards with at least one decoding sequence.
        step_s: Smoothed seconds between two steps.
    """

    def __init__(
        self,
        executor: StepExecutor[Any],
        scheduler: Scheduler,
        paging: KvAllocator,
        outputs: StepOutputs,
        clock: Clock,
    ) -> None:
        self._executor = executor
        self._scheduler = scheduler
        self._paging = paging
        self._outputs = outputs
        self._clock = clock
        self._steps = 0
        self._ended_s = 0.0
        self.forwards = 0
        self.decode_forwards = 0
        self.step_s = 0.0

    def launch(self, plan: ScheduledBatch) -> InFlightStep:
        """Start to compute what was planned; from here its tokens count as computed."""
        decodes = [one.computed_tokens >= one.prompt_tokens for one, _ in plan.shares]
        batch = self._executor.launch(plan)
        steps = batch.steps
        self.forwards += steps
        self.decode_forwards += steps * any(decodes)
        prefill_tokens = kv_tokens = 0
        for (sequence, count), decoded in zip(plan.shares, decodes, strict=True):
            reached = sequence.computed_tokens + count
            kv_tokens += reached
            if steps > 1:
                self._paging.extend(sequence, self._paging.missing_pages(sequence, steps))
                reached += steps - 1
            sequence.computed_tokens = reached
            if reached > sequence.reached_tokens:
                sequence.reached_tokens = reached
            if not decoded:
                prefill_tokens += count
                self._paging.cache_prefix(sequence)  # whoever reads it is launched later
        return InFlightStep(plan, batch, decodes, prefill_tokens, kv_tokens)

    def draw(self, step: InFlightStep) -> None:
        """Start to draw a token for each row that still stands where the batch took it to be."""
        batch = step.batch
        more = batch.steps - 1
        rows = [one for one in batch.rows if self._is_whole(one, more)]
        self._executor.sample(batch, rows)
        for sequence in rows:
            sequence.in_flight = 1

    def tell(self, step: InFlightStep) -> list[StepRecord]:
        """Wait for the tokens, append them, and book; one record a step."""
        batch = step.batch
        for sequence in batch.sampled:
            sequence.in_flight = 0
        members = [
            (sequence, decoded)
            for (sequence, _), decoded in zip(step.plan.shares, step.decodes, strict=True)
            if self._is_alive(sequence)
        ]
        whole = len(members) == len(step.plan.shares)
        alive = [whole or self._is_alive(sequence) for sequence in batch.sampled]
        sampled = self._executor.collect(batch, alive)
        spans = batch.spans
        ended_s = spans[-1].ended_s if spans else self._clock.now_s()
        for sequence, decoded in members:
            bucket: Bucket = "decode" if decoded else "prefill"
            masks_s = sampled.masks_s.get(sequence.request.request_id, 0.0)
            sequence.metrics.record_step(bucket, ended_s, masks_s, len(members), batch.steps)
            page_tokens = self._paging.page_tokens
            if sequence.computes_whole_pages and not sequence.pending_tokens(page_tokens):
                self._scheduler.hold(sequence)
        told = 0
        for sequence, lives in zip(batch.sampled, alive, strict=True):
            if lives:
                told += 1
                if sequence.metrics.first_token_at_s == 0.0 and sequence.output_tokens:
                    sequence.metrics.first_token_at_s = ended_s
                self._outputs.tell(sequence)
        for sequence, finish in sampled.finishes:
            self._outputs.end(sequence, finish, ended_s)
        return self._records(step, members, told, ended_s)

    def tell_scored(self, scored: Rows[Sequence], began_s: float, ended_s: float) -> StepRecord:
        """A forward that scored options is a step of its own."""
        for sequence in scored:
            account, size = sequence.metrics, self._paging.page_tokens
            if account.admitted_at_s == 0.0:  # all of its prompt was known
                account.cached_tokens += (sequence.prompt_tokens - 1) // size * size
            account.start_running("queue", began_s)
            account.record_step("decode", ended_s, 0.0, len(scored))
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
        spans = step.batch.spans or ((max(step.plan.began_s, self._ended_s), ended_s),)
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
                    kv_tokens=step.kv_tokens + number * len(step.plan.shares),
                    waiting=step.plan.waiting,
                )
            )
            seconds = until_s - began_s
            self.step_s = seconds if self._steps == 0 else 0.8 * self.step_s + 0.2 * seconds
            self._steps += 1
        self._ended_s = ended_s
        if not any(step.decodes):
            self._note_prefill(records[0])
        return records

    def _note_prefill(self, record: StepRecord) -> None:
        """How fast prompts are computed decides what is worth keeping."""
        seconds = record.ended_at_s - record.started_at_s
        self._scheduler.queue.note_prefill(record.prefill_tokens, seconds)
        if self._executor.offload is not None:
            self._executor.offload.rates.note_prefill(record.prefill_tokens, seconds)

    def _is_alive(self, sequence: Sequence) -> bool:
        return self._scheduler.find(sequence.request.request_id) is sequence

    def _is_whole(self, sequence: Sequence, more_tokens: int) -> bool:
        """Whether the last token that was computed is the last there is, but for `more_tokens`."""
        known = len(sequence.tokens) + more_tokens
        return self._is_alive(sequence) and sequence.computed_tokens == known

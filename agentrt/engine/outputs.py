"""Deltas and ends for the next `StepDone`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agentrt.base.errors import record_of
from agentrt.base.ids import RequestId
from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.sampling import sequence_output
from agentrt.engine.sampling.sequence_output import Finish
from agentrt.engine.scheduling.scheduler import Scheduler
from agentrt.engine.sequence.metrics import RequestMetrics
from agentrt.engine.sequence.sequence import Sequence
from agentrt.protocol.step_output import Admission, Delta, End, StepDone, StepRecord


class StepOutputs:
    """Deltas and ends since the last delivery.

    Attributes:
        reported_free_pages: Free pages as last delivered.

    Args:
        scheduler: Scheduler of the sequences.
        forget: Each releases what its owner keeps for a finished sequence.
        allocator: Source of the number of free pages.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        forget: Iterable[Callable[[Sequence], None]],
        allocator: KvAllocator,
    ) -> None:
        self._scheduler = scheduler
        self._forget = tuple(forget)
        self._allocator = allocator
        self.reported_free_pages = allocator.pool.free_pages
        self._deltas: list[Delta] = []
        self._ends: list[End] = []

    @property
    def has_ends(self) -> bool:
        """Whether there is an end to deliver."""
        return bool(self._ends)

    def add_delta(self, sequence: Sequence) -> None:
        """Collect the new output of a sequence."""
        delta = sequence_output.take_delta(sequence)
        if delta is not None:
            self._deltas.append(delta)

    def end(self, sequence: Sequence, finish: Finish, now_s: float) -> None:
        """End a sequence; its computed KV stays in the radix tree.

        If its last output cannot be collected, it fails with that error.
        """
        try:
            sequence_output.flush_text(sequence, finish)
            self.add_delta(sequence)
        except Exception as error:  # fails this sequence only
            finish = finish if finish.error else Finish("failed", error=record_of(error))
        metrics = sequence.metrics
        metrics.record_until(sequence.time_bucket, now_s)
        if metrics.first_token_at_s == 0.0 and sequence.output_tokens:
            metrics.first_token_at_s = now_s
        for forget in self._forget:
            forget(sequence)
        self._scheduler.remove_sequence(sequence)
        self._ends.append(
            End(
                request_id=sequence.request.request_id,
                reason=finish.reason,
                ledger=metrics.to_ledger(
                    now_s,
                    prompt_tokens=(
                        sequence.reached_tokens
                        if sequence.request.ahead
                        else sequence.prompt_tokens
                    ),
                    output_tokens=sequence.output_tokens,
                    thinking_tokens=sequence.reasoning_tokens,
                ),
                closed_early=finish.closed_early,
                error=finish.error,
                stopped_by=finish.stopped_by,
                scores=finish.scores,
            )
        )

    def fail(self, sequence: Sequence, error: Exception, now_s: float) -> None:
        """End a sequence with an error."""
        self.end(sequence, Finish("failed", error=record_of(error)), now_s)

    def refuse(
        self, request_id: RequestId, error: Exception, metrics: RequestMetrics, now_s: float
    ) -> None:
        """End a request that did not become a sequence."""
        ledger = metrics.to_ledger(now_s, prompt_tokens=0, output_tokens=0)
        self._ends.append(End(request_id, "failed", ledger, error=record_of(error)))

    def take(self, step: StepRecord | None, admissions: tuple[Admission, ...] = ()) -> StepDone:
        """Everything since the last delivery, with the requests admitted into the step."""
        deltas, ends = tuple(self._deltas), tuple(self._ends)
        self._deltas, self._ends = [], []
        return self._done(step, deltas, ends, admissions)

    def take_steps(
        self, steps: list[StepRecord], admissions: tuple[Admission, ...]
    ) -> list[StepDone]:
        """One delivery a step; the last has everything."""
        before = [self._done(step) for step in steps[:-1]]
        return [*before, self.take(steps[-1], admissions)]

    def _done(
        self,
        step: StepRecord | None,
        deltas: tuple[Delta, ...] = (),
        ends: tuple[End, ...] = (),
        admissions: tuple[Admission, ...] = (),
    ) -> StepDone:
        self.reported_free_pages = self._allocator.pool.free_pages
        return StepDone(
            step=step,
            deltas=deltas,
            ends=ends,
            free_pages=self.reported_free_pages,
            evictable_pages=self._allocator.tree.evictable_pages,
            admissions=admissions,
        )

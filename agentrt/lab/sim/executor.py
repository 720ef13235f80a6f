"""The executor of a simulated engine: costs give the time of a step, and outputs are given.

Scheduling, sharing and eviction are those of the production engine core.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from dataclasses import dataclass, field
from typing import NoReturn

from agentrt.base.config import EngineConfig
from agentrt.base.errors import Unsupported
from agentrt.base.ids import PageId, RequestId
from agentrt.engine.batch.input_packing import SequenceSlice
from agentrt.engine.drafts.draft_model import DraftModel
from agentrt.engine.kv.allocator import BlockTableWriter
from agentrt.engine.kv.offload import OffloadCache, TimedCopier
from agentrt.engine.runner.executor import LaunchedBatch, ScheduledBatch, StepSpan
from agentrt.engine.sampling.grammar_requests import GrammarRequests
from agentrt.engine.sampling.sequence_output import Finish, SampledStep
from agentrt.engine.sequence.sequence import Sequence
from agentrt.lab.sim.copier import open_virtual_offload
from agentrt.lab.sim.costs import SimCosts, StepWork
from agentrt.lab.sim.outcome import Totals
from agentrt.lab.sim.outputs import GivenOutput
from agentrt.lab.sim.step_work import draws_after, work_of
from agentrt.prompt import Codec

NO_END_S = float("inf")
_MOST_ID = 1 << 31


@dataclass(slots=True, eq=False)
class SimulatedBatch(LaunchedBatch):
    """A batch in progress.

    Attributes:
        work: Work of its first step.
        sequences: Number of its sequences.
    """

    work: StepWork = field(kw_only=True)
    sequences: int = field(kw_only=True)


class SimulatedExecutor:
    """A `StepExecutor` on virtual time that computes nothing.

    Args:
        config: Settings of the engine; `kv_pages` must be set.
        costs: Costs of steps and copies.
        codec: Codec of the token ids.

    Attributes:
        until_s: Instant before which equal steps that are computed at once have to end: until then
            no request arrives, grows or is cancelled.
        totals: Sums over all steps.

    Raises:
        UsageError: There is an offload tier, and the costs lack the memory of a token.
    """

    def __init__(self, config: EngineConfig, costs: SimCosts, codec: Codec) -> None:
        self._costs = costs
        self.codec = codec
        self.grammars = GrammarRequests(codec)
        opened = open_virtual_offload(config, costs)
        self.offload: OffloadCache[TimedCopier] | None = opened[0] if opened else None
        self.draft_model: DraftModel | None = None
        self._copier = opened[1] if opened else None
        self._page_tokens = config.page_tokens
        self.tables: BlockTableWriter = NoTables()
        self.pages = config.kv_pages
        self.page_bytes = round(config.page_tokens * costs.kv_token_bytes)
        self.logits_size = _MOST_ID
        self.window_tokens = self.rope_threshold = 0
        self.model = "simulated"
        self.overlaps = False
        self.until_s = NO_END_S
        self.totals = Totals()
        self._outputs: dict[RequestId, GivenOutput] = {}
        self._ready_at_s = 0.0
        self._is_busy = False

    @property
    def costs(self) -> SimCosts:
        """Costs of later steps and copies."""
        return self._costs

    @costs.setter
    def costs(self, costs: SimCosts) -> None:
        self._costs = costs
        if self._copier is not None:
            self._copier.costs = costs

    def expect(self, request_id: RequestId, output: GivenOutput) -> None:
        """Give the output of a request, before it is submitted."""
        self._outputs[request_id] = output

    def hinted(self, now_s: float) -> None:
        """Delay the next step by the copies that a hint started between two steps."""
        if self._copier is not None and not self._is_busy:
            self._ready_at_s = max(now_s, self._ready_at_s) + self._copier.take_s()

    def copy_page(self, source: PageId, target: PageId) -> None:
        """There is nothing to copy."""

    def launch(self, scheduled: ScheduledBatch) -> SimulatedBatch:
        """Compute the ends of the steps."""
        work = work_of(scheduled, self._is_formed)
        copied_s = self._copier.take_s() if self._copier is not None else 0.0
        began_s = max(scheduled.began_s, self._ready_at_s)
        spans = self._spans(work, len(scheduled.sequences), began_s, copied_s, scheduled.max_steps)
        rows = [one for one, count in scheduled.sequences if draws_after(one, count)]
        self._is_busy = True
        return SimulatedBatch(rows, spans=spans, work=work, sequences=len(scheduled.sequences))

    def sample(self, batch: SimulatedBatch, rows: Rows[Sequence]) -> None:
        """Note the rows; their tokens are known already."""
        batch.sampled = list(rows)

    def collect(self, batch: SimulatedBatch, alive: Rows[bool]) -> SampledStep:
        """Append the tokens of all steps of the batch."""
        self._is_busy = False
        self._ready_at_s = batch.spans[-1].ended_s + self._costs.gap_of(batch.sequences)
        if self._copier is not None:  # copies of hints that came during the step
            self._ready_at_s += self._copier.take_s()
        found = SampledStep()
        for sequence, lives in zip(batch.sampled, alive, strict=True):
            if not lives:
                self.totals.discarded_tokens += batch.steps
                continue
            self._append(sequence, batch.steps)
            if sequence.output_tokens >= sequence.max_output_tokens:
                found.finishes.append((sequence, Finish("length")))
            elif 0 < sequence.request.replayed_tokens <= sequence.output_tokens:
                found.finishes.append((sequence, Finish("stop")))
        self._sum_up(batch)
        return found

    def logits_at(self, slices: Rows[SequenceSlice], rows: Rows[int]) -> NoReturn:
        """A simulated engine has no logits.

        Raises:
            Unsupported: Always.
        """
        raise Unsupported("a simulated engine scores no choices", hint="Leave `scored` out")

    def plain_steps(self, sequence: Sequence) -> int:
        """Steps with one token each, up to the end or a length that a program waits for."""
        output = self._outputs[sequence.request.request_id]
        return output.plain_steps(sequence.output_tokens)

    def forget(self, sequence: Sequence) -> None:
        """Drop an ended sequence; the rest of its prompt is never computed."""
        known = max(sequence.reached_tokens, sequence.computed_tokens)
        self.totals.unread_tokens += max(0, sequence.prompt_tokens - known)
        del self._outputs[sequence.request.request_id]

    def close(self) -> None:
        """There is nothing to stop."""

    def _is_formed(self, sequence: Sequence) -> bool:
        return self._outputs[sequence.request.request_id].formed

    def _append(self, sequence: Sequence, steps: int) -> None:
        known = len(sequence.tokens)
        output = self._outputs[sequence.request.request_id]
        output.append_to(sequence.tokens, sequence.prompt_tokens, steps)
        new = sequence.tokens[known:]
        forced_tokens = len(new) - steps
        fresh = sequence.new_output
        fresh.token_ids += new
        fresh.text.append(sequence.detokenizer.feed_ids(new))
        fresh.forced_tokens += forced_tokens
        sequence.metrics.forced_tokens += forced_tokens

    def _spans(
        self, work: StepWork, sequences: int, began_s: float, copied_s: float, max_steps: int
    ) -> list[StepSpan]:
        """Spans of a step and of equal ones that end before `until_s`; the first has the copies."""
        costs, gap_s = self._costs, self._costs.gap_of(sequences)
        spans: list[StepSpan] = []
        while len(spans) < max_steps:
            ended_s = began_s + copied_s + costs.of(work)
            if spans and ended_s >= self.until_s:
                break
            spans.append(StepSpan(began_s, ended_s))
            began_s, copied_s = ended_s + gap_s, 0.0
            work = work.next(sequences)
        return spans

    def _sum_up(self, batch: SimulatedBatch) -> None:
        totals, work = self.totals, batch.work
        for began_s, ended_s in batch.spans:
            totals.steps += 1
            totals.busy_s += ended_s - began_s
            totals.prefill_tokens += work.prefill_tokens
            totals.decode_tokens += work.decode_tokens
            totals.kv_tokens += work.kv_tokens
            work = work.next(batch.sequences)
        if self._copier is not None and self.offload is not None:
            tier = self.offload.tier
            totals.copied_s = self._copier.copied_s
            totals.saved_tokens = tier.saved_pages * self._page_tokens
            totals.loaded_tokens = tier.loaded_pages * self._page_tokens


class NoTables:
    """Block tables without a reader."""

    def write(self, slot: int, at: int, pages: list[PageId]) -> None:
        """There is nothing to write."""

"""A step in three acts: its forward is launched, its tokens are drawn, its results are told.

Between them other work may go: with overlap the forward of the next step is launched before the
tokens of this one are known here. Its rows then name their last token by the slot that drew it,
and what came out otherwise (an end, a forced run, another choice) makes the row void, not wrong:
the KV it wrote is either that of the token that was taken, or written again.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from concurrent.futures import Future
from dataclasses import dataclass, field

from torch import Tensor

from agentrt.base.clock import Clock
from agentrt.engine.batch.input_packing import SequenceSlice
from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.kv.offload import CopyRates
from agentrt.engine.outputs import StepOutputs
from agentrt.engine.runner.model_runner import ModelRunner
from agentrt.engine.sampling.grammar_masks import GrammarMasks
from agentrt.engine.sampling.token_sampler import PendingSample, TokenSampler
from agentrt.engine.scheduling.scheduler import ScheduledSequence, Scheduler
from agentrt.engine.sequence.jump_forward import DraftedTokens
from agentrt.engine.sequence.metrics import Bucket
from agentrt.engine.sequence.sequence import Sequence
from agentrt.protocol.step_output import Admission, StepRecord


@dataclass(slots=True, eq=False)
class Flight:
    """A step that was launched.

    Attributes:
        began_s: When its planning began.
        members: Its sequences.
        decodes: Of each, whether its prompt had been computed before.
        prefill_tokens: Prompt tokens in it.
        kv_tokens: Tokens whose KV its attention reads, for each sequence.
        rows: Members that want a token, in the order of the logits.
        logits: `[rows, vocabulary]`, maybe still being computed.
        masks: Masks that are being filled beside it.
        drawn: Members whose token is being drawn.
        drawing: Of those.
        drafted: By sequence, guesses that were computed behind its row.
        admissions: Those that got their place in it.
        waiting: How many others had none.
    """

    began_s: float
    members: list[Sequence]
    decodes: list[bool]
    prefill_tokens: int
    kv_tokens: int
    rows: list[Sequence]
    logits: Tensor
    masks: Future[GrammarMasks] | None
    drawn: list[Sequence]
    drawing: PendingSample | None = None
    drafted: dict[Sequence, DraftedTokens] = field(default_factory=dict)
    admissions: tuple[Admission, ...] = ()
    waiting: int = 0


class Steps:
    """Launches, draws, tells.

    Attributes:
        forwards: Forwards so far.
        decode_forwards: Of those, with at least one sequence past its prompt.
        step_s: Smoothed time between two steps.
    """

    def __init__(
        self,
        machine: ModelRunner,
        decoder: TokenSampler,
        roster: Scheduler,
        paging: KvAllocator,
        outbox: StepOutputs,
        clock: Clock,
        rates: CopyRates | None = None,
        *,
        step_tokens: int,
        overlaps: bool,
    ) -> None:
        self._machine = machine
        self._decoder = decoder
        self._roster = roster
        self._paging = paging
        self._outbox = outbox
        self._clock = clock
        self._rates = rates
        self._step_tokens = step_tokens
        self._overlaps = overlaps
        self._steps = 0
        self._ended_s = 0.0
        self.forwards = 0
        self.decode_forwards = 0
        self.step_s = 0.0

    def launch(self, shares: list[ScheduledSequence], began_s: float, *, ahead: bool) -> Flight:
        """Start the forward over `shares`; from here their tokens count as computed.

        Args:
            shares: How many tokens of which sequence.
            began_s: When planning began.
            ahead: The step before is not told yet, so that masks have to wait for it.
        """
        parts: list[SequenceSlice] = []
        members: list[Sequence] = []
        decodes: list[bool] = []
        rows: list[Sequence] = []
        drafts = False
        for sequence, count in shares:
            part = _part(sequence, count)
            parts.append(part)
            members.append(sequence)
            decodes.append(sequence.computed_tokens >= sequence.prompt_tokens)
            if part.wants_logits:
                rows.append(sequence)
                drafts = drafts or bool(sequence.draft_tokens)
        masks = None if ahead else self._decoder.begin_masks(rows)
        if drafts and not ahead:
            self._add_drafts(members, parts)
        logits = self._machine.forward(parts)
        drafted: dict[Sequence, DraftedTokens] = {}
        if drafts:
            logits, drafted = _apart(rows, [part for part in parts if part.wants_logits], logits)
        self.forwards += 1
        self.decode_forwards += any(decodes)
        prefill_tokens = kv_tokens = 0
        for (sequence, count), decoded in zip(shares, decodes, strict=True):
            reached = sequence.computed_tokens + count
            sequence.computed_tokens = reached
            kv_tokens += reached
            if reached > sequence.reached_tokens:
                sequence.reached_tokens = reached
            if not decoded:
                prefill_tokens += count
                self._paging.cache_prefix(sequence)  # whoever reads it is launched later
        return Flight(
            began_s,
            members,
            decodes,
            prefill_tokens,
            kv_tokens,
            rows,
            logits,
            masks,
            [],
            drafted=drafted,
            waiting=self._roster.waiting_count,
        )

    def _add_drafts(self, members: list[Sequence], parts: list[SequenceSlice]) -> None:
        """Guesses go with what is known, as far as there is room for them without asking."""
        left = self._step_tokens - sum(len(part.token_ids) for part in parts)
        size = self._paging.page_tokens
        for sequence, part in zip(members, parts, strict=True):
            if not sequence.draft_tokens or not part.wants_logits:
                continue
            room = len(sequence.pages) * size - part.first_position - len(part.token_ids)
            guess = sequence.draft_tokens[: max(0, min(left, room))]
            part.token_ids = [*part.token_ids, *guess]
            part.draft_tokens = len(guess)
            left -= len(guess)

    def draw(self, flight: Flight) -> None:
        """Start to draw a token for each row that still stands where the forward took it to be."""
        kept = [at for at, sequence in enumerate(flight.rows) if self._is_whole(sequence)]
        flight.drawn = [flight.rows[at] for at in kept]
        if not kept:
            return
        logits = flight.logits if len(kept) == len(flight.rows) else flight.logits[kept]
        flight.drawing = self._decoder.sample(flight.drawn, logits, flight.masks)
        if self._overlaps:  # else every token is known here before the next step is packed
            self._machine.remember_tokens(
                [one.slot for one in flight.drawn], flight.drawing.token_ids
            )
        for sequence in flight.drawn:
            sequence.in_flight = 1

    def tell(self, flight: Flight) -> StepRecord:
        """Wait for the tokens, append them, and book."""
        for sequence in flight.drawn:
            sequence.in_flight = 0
        members = [
            (sequence, decoded)
            for sequence, decoded in zip(flight.members, flight.decodes, strict=True)
            if self._is_alive(sequence)
        ]
        whole = len(members) == len(flight.members)
        alive = [whole or self._is_alive(sequence) for sequence in flight.drawn]
        outcome = self._decoder.append_tokens(flight.drawn, flight.drawing, alive, flight.drafted)
        ended_s = self._clock.now_s()
        for sequence, decoded in members:
            bucket: Bucket = "decode" if decoded else "prefill"
            masks_s = outcome.masks_s.get(sequence.request.request_id, 0.0)
            sequence.metrics.record_step(bucket, ended_s, masks_s, len(members))
            if sequence.computes_whole_pages and not sequence.pending_tokens(
                self._paging.page_tokens
            ):
                self._roster.hold(sequence)
        told = 0
        for sequence, lives in zip(flight.drawn, alive, strict=True):
            if lives:
                told += 1
                if sequence.metrics.first_token_at_s == 0.0 and sequence.output_tokens:
                    sequence.metrics.first_token_at_s = ended_s
                self._outbox.tell(sequence)
        for sequence, finish in outcome.finishes:
            self._outbox.end(sequence, finish, ended_s)
        return self._record(flight, members, told, ended_s)

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

    def _record(
        self,
        flight: Flight,
        members: list[tuple[Sequence, bool]],
        decode_tokens: int,
        ended_s: float,
    ) -> StepRecord:
        began_s = max(flight.began_s, self._ended_s)
        seconds = ended_s - began_s
        if not any(flight.decodes):
            self._roster.queue.note_prefill(flight.prefill_tokens, seconds)
            if self._rates is not None:
                self._rates.note_prefill(flight.prefill_tokens, seconds)
        self._ended_s = ended_s
        self.step_s = seconds if self._steps == 0 else 0.8 * self.step_s + 0.2 * seconds
        self._steps += 1
        return StepRecord(
            index=self._steps - 1,
            started_at_s=began_s,
            ended_at_s=ended_s,
            prefill_tokens=flight.prefill_tokens,
            decode_tokens=decode_tokens,
            requests=tuple(sequence.request.request_id for sequence, _ in members),
            kv_tokens=flight.kv_tokens,
            waiting=flight.waiting,
        )

    def _is_alive(self, sequence: Sequence) -> bool:
        return self._roster.find(sequence.request.request_id) is sequence

    def _is_whole(self, sequence: Sequence) -> bool:
        """Whether the last token that was computed is the last there is."""
        return self._is_alive(sequence) and sequence.computed_tokens == len(sequence.tokens)


def _apart(
    rows: Rows[Sequence], parts: Rows[SequenceSlice], logits: Tensor
) -> tuple[Tensor, dict[Sequence, DraftedTokens]]:
    """The logits of `rows`, and what was computed behind them."""
    own: list[int] = []
    drafted: dict[Sequence, DraftedTokens] = {}
    at = 0
    for sequence, part in zip(rows, parts, strict=True):
        own.append(at)
        past = at + 1 + part.draft_tokens
        if part.draft_tokens:
            guess = list(part.token_ids[-part.draft_tokens :])
            drafted[sequence] = DraftedTokens(guess, logits[at + 1 : past])
        at = past
    return logits[own], drafted


def _part(sequence: Sequence, count: int) -> SequenceSlice:
    done, tokens = sequence.computed_tokens, sequence.tokens
    known = tokens[done : done + count]
    if len(known) < count:
        known.append(-1 - sequence.slot)  # drawn by the step before, known on the device only
    whole = done + count == len(tokens) + sequence.in_flight
    return SequenceSlice(sequence.slot, known, done, sequence.complete and whole)

"""Drafts of a model: it decodes a few tokens ahead, with the numbers with which they are drawn.

Both models draw the token at a position with the same random number, from logits behind the same
penalties and masks. The more their distributions agree, the more often the draws are equal; equal
models always agree.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from collections.abc import Sequence as Rows
from dataclasses import dataclass

from torch import Tensor

from agentrt.base.clock import Clock
from agentrt.base.config import EngineConfig
from agentrt.base.ids import PageId
from agentrt.engine.batch.input_packing import SequenceSlice
from agentrt.engine.drafts.draft_model import DraftOrder
from agentrt.engine.runner.draft_pages import DraftPages
from agentrt.engine.runner.draft_runner import window_of
from agentrt.engine.runner.model_runner import ModelRunner
from agentrt.engine.sampling.ahead import AheadRow, mask_ahead
from agentrt.engine.sampling.token_sampler import TokenSampler
from agentrt.engine.sequence.sequence import Sequence
from agentrt.protocol.step_output import DraftSource

_SMOOTHING = 0.2


@dataclass(slots=True, eq=False)
class OpenDraft:
    """A draft that is being decoded.

    Attributes:
        row: The sequence and its tokens so far.
        order: The draft that is wanted.
        computed_tokens: Tokens of sequence and draft that are computed.
        reach: First tokens that can be computed at once; those behind follow one by one.
    """

    row: AheadRow
    order: DraftOrder
    computed_tokens: int
    reach: int

    @property
    def text(self) -> list[int]:
        """Tokens of the sequence and of its draft."""
        return [*self.row.sequence.tokens, *self.row.token_ids]

    @property
    def is_computed(self) -> bool:
        """Whether all tokens so far are computed."""
        return self.computed_tokens == len(self.row.sequence.tokens) + len(self.row.token_ids)

    def next_tokens(self) -> list[int]:
        """The tokens that are to be computed next."""
        return self.text[self.computed_tokens : max(self.reach, self.computed_tokens + 1)]


class ModelDrafts:
    """Drafts tokens with a model; see `DraftModel`.

    Args:
        runner: Computes the model.
        sampler: Sampler of the target.
        config: Config of the engine.
        clock: Clock for the time of its forwards.

    Attributes:
        source: Source of its drafts.
        first_token: Place of the first token that it computes.
        window_tokens: Longest text that it can continue; 0 if there is no limit.
        forward_s: Smoothed seconds of a forward of one token a sequence; 0 before the first.
        drafting_s: Seconds that the last call of `draft` took.
        forwards: Forwards so far.
    """

    source: DraftSource = "model"
    first_token = 0

    def __init__(
        self,
        runner: ModelRunner,
        sampler: TokenSampler,
        config: EngineConfig,
        clock: Clock,
    ) -> None:
        self._runner = runner
        self._sampler = sampler
        self._clock = clock
        self._step_tokens = config.step_tokens
        self._chunk_tokens = config.prefill_chunk_tokens
        self._pages = DraftPages(runner.kv.pages, config.page_tokens)
        self.window_tokens = window_of(runner.model)
        self.forward_s = self.drafting_s = 0.0
        self.forwards = 0

    def clear(self, pages: list[PageId]) -> None:
        """Forget the KV of pages that have just been allocated."""
        self._pages.clear(pages)

    def roll_back(self, sequence: Sequence) -> None:
        """Forget the KV behind the tokens that the target has computed of a sequence."""
        self._pages.truncate(sequence.pages, sequence.computed_tokens)

    def draft(
        self, orders: Mapping[Sequence, DraftOrder], prefills: Rows[tuple[Sequence, int]]
    ) -> dict[Sequence, list[int]]:
        """Draft tokens, and compute prompts along; see `DraftModel`."""
        began_s = self._clock.now_s()
        open_drafts, slices = self._first_slices(orders, prefills)
        drafts = {one.row.sequence: one.row.token_ids for one in open_drafts}
        while slices:
            forward_began_s = self._clock.now_s()
            logits = self.forward(slices, open_drafts)
            self.forwards += 1
            is_plain = all(len(part.token_ids) == 1 for part in slices)
            open_drafts = self._drawn(open_drafts, logits)
            if is_plain:
                self._note_forward(self._clock.now_s() - forward_began_s)
            slices = [self._slice_of(one) for one in open_drafts]
        self.drafting_s = self._clock.now_s() - began_s
        return {
            sequence: token_ids
            for sequence, token_ids in drafts.items()
            if len(token_ids) > len(orders[sequence].given)
        }

    def _first_slices(
        self, orders: Mapping[Sequence, DraftOrder], prefills: Rows[tuple[Sequence, int]]
    ) -> tuple[list[OpenDraft], list[SequenceSlice]]:
        """Drafts that begin now, and the slices of the first forward: theirs, then the others."""
        open_drafts: list[OpenDraft] = []
        slices: list[SequenceSlice] = []
        chunks: list[tuple[Sequence, int, int]] = []
        free_tokens = self._step_tokens
        for sequence, order in orders.items():
            computed = self._computed_tokens(sequence)
            row = AheadRow(sequence, list(order.given))
            one = OpenDraft(row, order, computed, self.reach(sequence))
            pending = len(sequence.tokens) + len(order.given) - computed
            if (
                pending > min(self._chunk_tokens, free_tokens)
                or not self.begins(one)
                or not row.follow_given()
            ):
                chunks.append((sequence, computed, len(sequence.tokens)))
                continue
            open_drafts.append(one)
            slices.append(self._slice_of(one))
            free_tokens -= pending
        for sequence, count in prefills:
            chunks.append(
                (sequence, self._computed_tokens(sequence), sequence.computed_tokens + count)
            )
        for sequence, computed, end in chunks:
            if self.window_tokens:
                end = min(end, self.window_tokens)
            end = min(end, self.reach(sequence), computed + min(self._chunk_tokens, free_tokens))
            if end <= computed:
                continue
            tokens = sequence.tokens[computed:end]
            slices.append(self.slice(sequence, tokens, computed, wants_logits=False))
            self._pages.extend(sequence.pages, end)
            free_tokens -= len(tokens)
        return open_drafts, slices

    def reach(self, sequence: Sequence) -> int:
        """First tokens of a sequence that can be computed at once, whatever is computed already."""
        return sys.maxsize

    def begins(self, one: OpenDraft) -> bool:
        """Whether a draft that is wanted can be begun."""
        return True

    def slice(
        self, sequence: Sequence, token_ids: list[int], first_position: int, *, wants_logits: bool
    ) -> SequenceSlice:
        """Tokens of a sequence in a forward of the model."""
        return SequenceSlice(sequence.slot, token_ids, first_position, wants_logits)

    def forward(self, slices: list[SequenceSlice], open_drafts: Rows[OpenDraft]) -> Tensor:
        """Logits behind the slices of the drafts, which are the first, `[drafts, vocabulary]`."""
        return self._runner.forward(slices)

    def _slice_of(self, one: OpenDraft) -> SequenceSlice:
        tokens = one.next_tokens()
        return self.slice(one.row.sequence, tokens, one.computed_tokens, wants_logits=True)

    def _computed_tokens(self, sequence: Sequence) -> int:
        """Tokens of which both models have the KV."""
        computed = min(self._pages.computed_tokens(sequence.pages), sequence.computed_tokens)
        return max(self.first_token, computed)

    def _drawn(self, open_drafts: list[OpenDraft], logits: Tensor) -> list[OpenDraft]:
        """Draw a token for each draft whose known tokens are all computed; those that go on."""
        for one in open_drafts:
            one.computed_tokens += len(one.next_tokens())
            kept = min(one.computed_tokens, one.reach)
            self._pages.extend(one.row.sequence.pages, kept)
        ready = [at for at, one in enumerate(open_drafts) if one.is_computed]
        if not ready:
            return open_drafts
        if len(ready) < len(open_drafts):
            logits = logits[ready]
        rows = [open_drafts[at].row for at in ready]
        drawn = self._sampler.draw_ahead(rows, logits, mask_ahead(rows, logits))
        ended = {
            at
            for at, row, token_id in zip(ready, rows, drawn, strict=True)
            if not row.append(token_id) or len(row.token_ids) >= open_drafts[at].order.tokens
        }
        return [one for at, one in enumerate(open_drafts) if at not in ended]

    def _note_forward(self, seconds: float) -> None:
        known = self.forward_s
        self.forward_s = known + _SMOOTHING * (seconds - known) if known else seconds

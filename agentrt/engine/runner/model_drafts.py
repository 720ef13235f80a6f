"""Drafts of a model: it decodes a few tokens ahead, with the numbers with which they are drawn.

Both models draw the token at a position with the same random number, from logits behind the same
penalties and masks. The more their distributions agree, the more often the draws are equal; equal
models always agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Rows
from dataclasses import dataclass, field

from torch import Tensor

from agentrt.base.clock import Clock
from agentrt.base.config import EngineConfig
from agentrt.base.ids import PageId
from agentrt.engine.batch.input_packing import SequenceSlice
from agentrt.engine.drafts.draft_model import DraftOrder
from agentrt.engine.runner.draft_pages import DraftPages
from agentrt.engine.runner.model_runner import ModelRunner
from agentrt.engine.sampling.ahead import AheadRow, mask_ahead
from agentrt.engine.sampling.token_sampler import TokenSampler
from agentrt.engine.sequence.sequence import Sequence

_SMOOTHING = 0.2


@dataclass(slots=True, eq=False)
class _OpenDraft:
    """A draft that is being decoded.

    Attributes:
        row: The sequence and its tokens so far.
        order: The draft that is wanted.
        computed_tokens: Tokens of sequence and draft that are computed.
    """

    row: AheadRow
    order: DraftOrder
    computed_tokens: int = field(default=0)

    @property
    def text(self) -> list[int]:
        """Tokens of the sequence and of its draft."""
        return [*self.row.sequence.tokens, *self.row.token_ids]

    def slice(self) -> SequenceSlice:
        """The tokens that are left to compute."""
        tokens = self.text[self.computed_tokens :]
        slot = self.row.sequence.slot
        return SequenceSlice(slot, tokens, self.computed_tokens, wants_logits=True)


class ModelDrafts:
    """Drafts tokens with a model; see `DraftModel`.

    Args:
        runner: Computes the model.
        sampler: Sampler of the target.
        config: Config of the engine.
        pages: Pages of the KV cache.
        window_tokens: Longest text that the model can continue; 0 if there is no limit.
        clock: Clock for the time of its forwards.

    Attributes:
        window_tokens: Longest text that it can continue; 0 if there is no limit.
        forward_s: Smoothed seconds of a forward of one token a sequence; 0 before the first.
        drafting_s: Seconds that the last call of `draft` took.
        forwards: Forwards so far.
    """

    def __init__(
        self,
        runner: ModelRunner,
        sampler: TokenSampler,
        config: EngineConfig,
        *,
        pages: int,
        window_tokens: int,
        clock: Clock,
    ) -> None:
        self._runner = runner
        self._sampler = sampler
        self._clock = clock
        self._step_tokens = config.step_tokens
        self._chunk_tokens = config.prefill_chunk_tokens
        self._pages = DraftPages(pages, config.page_tokens)
        self.window_tokens = window_tokens
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
            logits = self._runner.forward(slices)
            self.forwards += 1
            is_plain = all(len(part.token_ids) == 1 for part in slices)
            going = self._drawn(open_drafts, logits)
            if is_plain:
                self._note_forward(self._clock.now_s() - forward_began_s)
            slices = [one.slice() for one in going]
            open_drafts = going
        self.drafting_s = self._clock.now_s() - began_s
        return {
            sequence: token_ids
            for sequence, token_ids in drafts.items()
            if len(token_ids) > len(orders[sequence].given)
        }

    def _first_slices(
        self, orders: Mapping[Sequence, DraftOrder], prefills: Rows[tuple[Sequence, int]]
    ) -> tuple[list[_OpenDraft], list[SequenceSlice]]:
        """Drafts that begin now, and the slices of the first forward: theirs, then the others."""
        open_drafts: list[_OpenDraft] = []
        slices: list[SequenceSlice] = []
        chunks: list[tuple[Sequence, int, int]] = []
        free_tokens = self._step_tokens
        for sequence, order in orders.items():
            computed = self._computed_tokens(sequence)
            row = AheadRow(sequence, list(order.given))
            pending = len(sequence.tokens) + len(order.given) - computed
            if pending > min(self._chunk_tokens, free_tokens):
                chunks.append((sequence, computed, len(sequence.tokens)))
                continue
            one = _OpenDraft(row, order, computed)
            if not row.follow_given():
                chunks.append((sequence, computed, len(sequence.tokens)))
                continue
            open_drafts.append(one)
            slices.append(one.slice())
            free_tokens -= pending
        for sequence, count in prefills:
            chunks.append(
                (sequence, self._computed_tokens(sequence), sequence.computed_tokens + count)
            )
        for sequence, computed, end in chunks:
            if self.window_tokens:
                end = min(end, self.window_tokens)
            end = min(end, computed + min(self._chunk_tokens, free_tokens))
            if end <= computed:
                continue
            tokens = sequence.tokens[computed:end]
            slices.append(SequenceSlice(sequence.slot, tokens, computed, wants_logits=False))
            self._pages.extend(sequence.pages, end)
            free_tokens -= len(tokens)
        return open_drafts, slices

    def _computed_tokens(self, sequence: Sequence) -> int:
        """Tokens of which both models have the KV."""
        return min(self._pages.computed_tokens(sequence.pages), sequence.computed_tokens)

    def _drawn(self, open_drafts: list[_OpenDraft], logits: Tensor) -> list[_OpenDraft]:
        """Draw a token for each draft; those that go on."""
        if not open_drafts:
            return []
        for one in open_drafts:
            one.computed_tokens = len(one.text)
            self._pages.extend(one.row.sequence.pages, one.computed_tokens)
        rows = [one.row for one in open_drafts]
        drawn = self._sampler.draw_ahead(rows, logits, mask_ahead(rows, logits))
        return [
            one
            for one, token_id in zip(open_drafts, drawn, strict=True)
            if one.row.append(token_id) and len(one.row.token_ids) < one.order.tokens
        ]

    def _note_forward(self, seconds: float) -> None:
        known = self.forward_s
        self.forward_s = known + _SMOOTHING * (seconds - known) if known else seconds

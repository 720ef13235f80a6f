"""Token sampling of a step: from logits to the next tokens of its sequences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Rows
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from agentrt.base.errors import InternalError, record_of
from agentrt.engine.kv.transfer import to_device
from agentrt.engine.sampling import sequence_output
from agentrt.engine.sampling.ahead import AheadRow
from agentrt.engine.sampling.draft_masks import mask_drafts
from agentrt.engine.sampling.draw_rows import DrawRow, draw_rows
from agentrt.engine.sampling.end_searches import EndSearches
from agentrt.engine.sampling.grammar_masks import GrammarMasks, MaskFiller
from agentrt.engine.sampling.grammar_threads import GrammarFuture
from agentrt.engine.sampling.sampler import SampledToken, SampledTokens, SamplingRow, sample_tokens
from agentrt.engine.sampling.sequence_output import Finish, Postponed, SampledStep
from agentrt.engine.sequence.draft import Verification
from agentrt.engine.sequence.sequence import Sequence
from agentrt_kernels.contract import Kernels

_PLAIN = nullcontext()
_NO_DRAFTS: Mapping[Sequence, Verification] = {}

LogitsProcessor = Callable[[Rows[DrawRow], Tensor], None]
"""Changes logits `[rows, tokens]` fp32 in place, before penalties and masks."""


@dataclass(slots=True, eq=False)
class PendingSample:
    """Tokens that are being sampled.

    Attributes:
        tokens: One per row, maybe still being sampled.
        logits: `[rows, tokens]`, with penalties applied.
        rows: One per row.
        starts: First row of each sequence; those behind the tokens of its draft follow.
        masks: Grammar masks of the sequences.
        bitmask: `[rows, words]` int32 bits of the allowed tokens, or None.
    """

    tokens: SampledTokens
    logits: Tensor
    rows: list[SamplingRow]
    starts: Rows[int]
    masks: GrammarMasks
    bitmask: Tensor | None

    @property
    def token_ids(self) -> Tensor:
        """`[sequences]` int64, on the device."""
        token_ids = self.tokens.token_ids
        if len(self.starts) == len(self.rows):
            return token_ids
        return token_ids[to_device(self.starts, torch.int64, token_ids.device)]

    def error_of(self, index: int, row: int) -> Exception | None:
        """The error that keeps a row of a sequence from being sampled, or None."""
        failed = self.masks.failed.get(index) if row == self.starts[index] else None
        return failed or self.tokens.failed.get(row)


class TokenSampler:
    """Samples tokens and appends them to their sequences.

    Args:
        eos_ids: Tokens that end an output.
        special_ids: Tokens without text; may include the former.
        used_ids: Size of the vocabulary; ids from here on pad the embedding.
        logits_size: Width of the logits.
        kernels: Kernel set that samples.

    Attributes:
        mask_filler: Fills the grammar masks of its rows.
        end_searches: Searches for ends behind the tokens of its rows.
        logits_processor: Changes logits before they are sampled from, or None. Drafts are verified
            with the same logits, so that a replay can let recorded text be sampled.
    """

    def __init__(
        self,
        eos_ids: frozenset[int],
        special_ids: frozenset[int],
        *,
        used_ids: int,
        logits_size: int,
        kernels: Kernels,
    ) -> None:
        self._kernels = kernels
        self._eos_ids = eos_ids
        self._no_text = sorted(at for at in eos_ids | special_ids if at < used_ids)
        self._used_ids = used_ids
        self._logits_size = logits_size
        self.mask_filler = MaskFiller(logits_size)
        self.end_searches = EndSearches()
        self.logits_processor: LogitsProcessor | None = None

    def sample(
        self,
        sequences: Rows[Sequence],
        logits: Tensor,
        begun_masks: GrammarFuture[GrammarMasks] | None,
        drafted: Mapping[Sequence, Verification] = _NO_DRAFTS,
    ) -> PendingSample:
        """Begin to sample a token for each sequence, and one behind each token of its draft.

        Args:
            sequences: Sequences that need a token.
            logits: `[rows, logits_size]` fp32, in the order of `draw_rows`; changed in place.
            begun_masks: Result of `mask_filler.begin_masks`.
            drafted: Drafts that were computed behind sequences.
        """
        # Masks first: on a GPU the forward is still running.
        masks = self.mask_filler.finish_masks(sequences, begun_masks)
        rows, starts = draw_rows(sequences, drafted)
        bitmask = masks.bitmask
        if drafted:
            bitmask = mask_drafts(
                sequences,
                drafted,
                masks,
                rows=len(rows),
                row_budget_s=self.mask_filler.row_budget_s,
            )
        if bitmask is not None and not logits.is_cpu:
            bitmask = to_device(bitmask, torch.int32, logits.device)
        with _writable(logits):
            if logits.shape[1] > self._used_ids:
                logits = logits[:, : self._used_ids]
            self._mask_no_text(rows, logits)
            if self.logits_processor is not None:
                self.logits_processor(rows, logits)
            sampling_rows = [one.sampling_row() for one in rows]
            tokens = sample_tokens(self._kernels, logits, sampling_rows, bitmask)
        return PendingSample(tokens, logits, sampling_rows, starts, masks, bitmask)

    def draw_ahead(self, rows: Rows[AheadRow], logits: Tensor, bitmask: Tensor | None) -> list[int]:
        """Draw a token for each row of a draft, as the sequence will draw it at that place.

        Args:
            rows: Sequences with the tokens drafted so far.
            logits: `[rows, logits_size]` fp32 of the draft model; changed in place.
            bitmask: `[rows, words]` int32 bits of the allowed tokens, or None.

        Returns:
            A token a row; -1 if its output would end here, or cannot be drawn.
        """
        places = [DrawRow(one.sequence, one.token_ids) for one in rows]
        with _writable(logits):
            logits = logits[:, : self._used_ids]
            self._mask_no_text(places, logits)
            sampling_rows = [one.sampling_row() for one in places]
            for row in sampling_rows:
                if row.params.logprobs:
                    row.params = replace(row.params, logprobs=0)
            sampled = sample_tokens(self._kernels, logits, sampling_rows, bitmask)
        drawn = [one.token_id for one in sampled.wait()]
        return [
            -1 if at in sampled.failed or token_id in self._eos_ids else token_id
            for at, token_id in enumerate(drawn)
        ]

    def append_tokens(
        self,
        rows: Rows[Sequence],
        sample: PendingSample | None,
        alive: Rows[bool],
        drafted: Mapping[Sequence, Verification],
    ) -> SampledStep:
        """Wait for the tokens, append each to its sequence, and verify the drafts behind them.

        Args:
            rows: Sequences that were sampled for.
            sample: Result of `sample`; None if there are no rows.
            alive: Whether each row's sequence is unfinished.
            drafted: Drafts that were computed behind rows.
        """
        result = SampledStep()
        if sample is None:
            return result
        sampled = sample.tokens.wait()
        indices: dict[Sequence, int] = {}
        self.end_searches.begin_step()
        for index, sequence in enumerate(rows):
            if not alive[index]:
                continue
            result.masks_s[sequence.request.request_id] = sample.masks.seconds[index]
            known = len(sequence.tokens)
            row = sample.starts[index]
            is_late = index in sample.masks.late
            finish = None if is_late else self._append(sequence, sampled[row], sample, index, row)
            if is_late or isinstance(finish, Postponed):
                # Compute the last token again, and sample then.
                sequence.computed_tokens = min(sequence.computed_tokens, known - 1)
                continue
            if finish is not None:
                result.finishes.append((sequence, finish))
            elif sequence.tokens[known] != sampled[row].token_id:
                # Another token was appended; a step launched meanwhile has seen the wrong one.
                sequence.computed_tokens = min(sequence.computed_tokens, known)
            if sequence in drafted:
                result.verified.append(drafted[sequence])
                indices[sequence] = index
        if result.verified:
            self._verify(result, sample, sampled, indices)
        return result

    def _verify(
        self,
        result: SampledStep,
        sample: PendingSample,
        sampled: Rows[SampledToken],
        indices: Mapping[Sequence, int],
    ) -> None:
        """Append the tokens drawn behind drafts for as long as they match, all sequences at once.

        Args:
            result: Result of the step, with the drafts to verify.
            sample: The step's sample.
            sampled: Tokens of all rows.
            indices: Index of each sequence with a draft in the step.
        """
        ended = {sequence for sequence, _ in result.finishes}
        going = result.verified
        while going := [one for one in going if one.accept() and one.sequence not in ended]:
            alone = [one for one in going if not one.is_drawn]
            late = self._draw_alone(alone, sample) if alone else None
            tokens = late.tokens.wait() if late is not None else []
            number = 0
            for one in going:
                sequence = one.sequence
                is_late = False
                if late is not None and number < len(alone) and one is alone[number]:
                    result.masks_s[sequence.request.request_id] += late.masks.seconds[number]
                    is_late = number in late.masks.late
                    drawn = late, tokens[number], number, number
                    number += 1
                else:
                    drawn = sample, sampled[one.row], indices[sequence], one.row
                of, token, index, row = drawn
                finish = None if is_late else self._append(sequence, token, of, index, row)
                if is_late or isinstance(finish, Postponed):
                    sequence.computed_tokens -= 1
                elif finish is not None:
                    result.finishes.append((sequence, finish))
                    ended.add(sequence)
        for one in result.verified:
            one.count_rejected()

    def _draw_alone(self, drafts: Rows[Verification], sample: PendingSample) -> PendingSample:
        """Draw behind the tokens that match where the mask was not known before.

        Penalties have been applied to the logits with the draft's tokens, which are the sequence's.
        """
        sequences = [one.sequence for one in drafts]
        masks = self.mask_filler.finish_masks(sequences, None)
        rows = [one.row for one in drafts]
        with _writable(sample.logits):
            logits = sample.logits[rows]
            sampling_rows = [sample.rows[row].without_penalties() for row in rows]
            bitmask = masks.bitmask_for(logits)
            tokens = sample_tokens(self._kernels, logits, sampling_rows, bitmask)
        return PendingSample(tokens, logits, sampling_rows, range(len(rows)), masks, bitmask)

    def abandon(self, sequence: Sequence) -> None:
        """Give up the mask and the search of a sequence that has ended."""
        self.mask_filler.abandon(sequence)
        self.end_searches.abandon(sequence)

    def close(self) -> None:
        """End the threads."""
        self.mask_filler.close()
        self.end_searches.close()

    def _mask_no_text(self, rows: Rows[DrawRow], logits: Tensor) -> None:
        """Forbid all tokens without text in rows with `ignore_eos`."""
        going = [at for at, one in enumerate(rows) if one.sequence.request.sampling.ignore_eos]
        if going:
            at = to_device(going, torch.int64, logits.device)
            no_text = to_device(self._no_text, torch.int64, logits.device)
            logits[at[:, None], no_text] = -torch.inf

    def _append(
        self,
        sequence: Sequence,
        sampled: SampledToken,
        sample: PendingSample,
        index: int,
        row: int,
    ) -> Finish | Postponed | None:
        """Append the token of a row, or end its sequence. An error fails one sequence only."""

        def redraw(token_id: int) -> SampledToken:
            logits, bitmask = sample.logits[row : row + 1], sample.bitmask
            with _writable(logits):
                logits[0, token_id] = -torch.inf
                row_bitmask = None if bitmask is None else bitmask[row : row + 1]
                return sample_tokens(
                    self._kernels, logits, [sample.rows[row].without_penalties()], row_bitmask
                ).wait()[0]

        await_search = partial(self.end_searches.is_done, sequence)
        try:
            if sampled.token_id < 0:
                raise InternalError("the model computed logits that are not numbers")
            if (error := sample.error_of(index, row)) is not None:
                raise error
            return sequence_output.append_token(
                sequence, sampled, redraw, self._eos_ids, await_search
            )
        except Exception as wrong:
            return _finish_failed(sequence, wrong)


def _writable(logits: Tensor) -> AbstractContextManager[object]:
    """Context in which logits may be changed in place; inference tensors need inference mode."""
    return torch.inference_mode() if logits.is_inference() else _PLAIN


def _finish_failed(sequence: Sequence, error: Exception) -> Finish:
    """Finish with the closing tokens if the grammar holds some, else with the error."""
    with suppress(Exception):  # what broke may be the grammar
        if sequence.grammar is not None and sequence.grammar.can_close:
            return sequence_output.close_output(sequence)
    return Finish("failed", error=record_of(error))

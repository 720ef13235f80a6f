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
from agentrt.engine.sampling.end_searches import EndSearches
from agentrt.engine.sampling.grammar_masks import GrammarMasks, MaskFiller
from agentrt.engine.sampling.grammar_threads import GrammarFuture
from agentrt.engine.sampling.sampler import SampledToken, SampledTokens, SamplingRow, sample_tokens
from agentrt.engine.sampling.sequence_output import Finish, Postponed, SampledStep
from agentrt.engine.sequence.draft import Verification
from agentrt.engine.sequence.sequence import Sequence
from agentrt_kernels.contract import Kernels

_PLAIN = nullcontext()

LogitsProcessor = Callable[[Rows[Sequence], Tensor], None]
"""Changes logits `[rows, tokens]` fp32 in place, before penalties and masks."""


@dataclass(slots=True, eq=False)
class PendingSample:
    """Tokens that are being sampled.

    Attributes:
        tokens: One per row, maybe still being sampled.
        logits: `[rows, tokens]`, with penalties applied.
        rows: One per row.
        masks: Grammar masks of the rows.
        bitmask: `[rows, words]` int32 bits of the allowed tokens, or None.
    """

    tokens: SampledTokens
    logits: Tensor
    rows: list[SamplingRow]
    masks: GrammarMasks
    bitmask: Tensor | None

    @property
    def token_ids(self) -> Tensor:
        """`[rows]` int64, on the device."""
        return self.tokens.token_ids


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
        self, rows: Rows[Sequence], logits: Tensor, begun_masks: GrammarFuture[GrammarMasks] | None
    ) -> PendingSample:
        """Begin to sample a token for each row.

        Args:
            rows: Sequences that need a token.
            logits: `[rows, logits_size]` fp32; changed in place.
            begun_masks: Result of `mask_filler.begin_masks`.
        """
        # Masks first: on a GPU the forward is still running.
        masks = self.mask_filler.finish_masks(rows, begun_masks)
        with _writable(logits):
            if logits.shape[1] > self._used_ids:
                logits = logits[:, : self._used_ids]
            self._mask_no_text(rows, logits)
            if self.logits_processor is not None:
                self.logits_processor(rows, logits)
            sampling_rows = [_sampling_row(sequence) for sequence in rows]
            bitmask = masks.bitmask_for(logits)
            tokens = sample_tokens(self._kernels, logits, sampling_rows, bitmask)
        return PendingSample(tokens, logits, sampling_rows, masks, bitmask)

    def draw_ahead(self, rows: Rows[AheadRow], logits: Tensor, bitmask: Tensor | None) -> list[int]:
        """Draw a token for each row of a draft, as the sequence will draw it at that place.

        Args:
            rows: Sequences with the tokens drafted so far.
            logits: `[rows, logits_size]` fp32 of the draft model; changed in place.
            bitmask: `[rows, words]` int32 bits of the allowed tokens, or None.

        Returns:
            A token a row; -1 if its output would end here, or cannot be drawn.
        """
        sequences = [one.sequence for one in rows]
        with _writable(logits):
            logits = logits[:, : self._used_ids]
            self._mask_no_text(sequences, logits)
            sampling_rows = [_sampling_row(one.sequence, one.token_ids) for one in rows]
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
        self.end_searches.begin_step()
        for index, sequence in enumerate(rows):
            if not alive[index]:
                continue
            result.masks_s[sequence.request.request_id] = sample.masks.seconds[index]
            known = len(sequence.tokens)
            is_late = index in sample.masks.late
            finish = None if is_late else self._append(sequence, sampled[index], sample, index)
            if is_late or isinstance(finish, Postponed):
                # Compute the last token again, and sample then.
                sequence.computed_tokens = min(sequence.computed_tokens, known - 1)
                continue
            if finish is not None:
                result.finishes.append((sequence, finish))
            elif sequence.tokens[known] != sampled[index].token_id:
                # Another token was appended; a step launched meanwhile has seen the wrong one.
                sequence.computed_tokens = min(sequence.computed_tokens, known)
            if sequence in drafted:
                result.verified.append(drafted[sequence])
        if result.verified:
            self._verify(result)
        return result

    def _verify(self, result: SampledStep) -> None:
        """Draw behind drafted tokens for as long as they match, all sequences at once."""
        ended = {sequence for sequence, _ in result.finishes}
        rows = result.verified
        while rows := [one for one in rows if one.accept() and one.sequence not in ended]:
            logits = [one.logits[one.matching_tokens - 1 :][:1] for one in rows]
            sample = self.sample(
                [one.sequence for one in rows],
                logits[0] if len(rows) == 1 else torch.cat(logits),
                None,
            )
            sampled = sample.tokens.wait()
            for index, one in enumerate(rows):
                sequence = one.sequence
                result.masks_s[sequence.request.request_id] += sample.masks.seconds[index]
                is_late = index in sample.masks.late
                finish = None if is_late else self._append(sequence, sampled[index], sample, index)
                if is_late or isinstance(finish, Postponed):
                    sequence.computed_tokens -= 1
                elif finish is not None:
                    result.finishes.append((sequence, finish))
                    ended.add(sequence)
        for one in result.verified:
            one.count_rejected()

    def abandon(self, sequence: Sequence) -> None:
        """Give up the mask and the search of a sequence that has ended."""
        self.mask_filler.abandon(sequence)
        self.end_searches.abandon(sequence)

    def close(self) -> None:
        """End the threads."""
        self.mask_filler.close()
        self.end_searches.close()

    def _mask_no_text(self, rows: Rows[Sequence], logits: Tensor) -> None:
        """Forbid all tokens without text in rows with `ignore_eos`."""
        going = [at for at, one in enumerate(rows) if one.request.sampling.ignore_eos]
        if going:
            at = to_device(going, torch.int64, logits.device)
            no_text = to_device(self._no_text, torch.int64, logits.device)
            logits[at[:, None], no_text] = -torch.inf

    def _append(
        self, sequence: Sequence, sampled: SampledToken, sample: PendingSample, index: int
    ) -> Finish | Postponed | None:
        """Append the token of a row, or end its sequence. An error fails one row only."""

        def redraw(token_id: int) -> SampledToken:
            logits, bitmask = sample.logits[index : index + 1], sample.bitmask
            with _writable(logits):
                logits[0, token_id] = -torch.inf
                row_bitmask = None if bitmask is None else bitmask[index : index + 1]
                return sample_tokens(
                    self._kernels, logits, [sample.rows[index].without_penalties()], row_bitmask
                ).wait()[0]

        await_search = partial(self.end_searches.is_done, sequence)
        try:
            _check_row(sample, sampled, index)
            return sequence_output.append_token(
                sequence, sampled, redraw, self._eos_ids, await_search
            )
        except Exception as error:
            return _finish_failed(sequence, error)


def _writable(logits: Tensor) -> AbstractContextManager[object]:
    """Context in which logits may be changed in place; inference tensors need inference mode."""
    return torch.inference_mode() if logits.is_inference() else _PLAIN


def _check_row(sample: PendingSample, sampled: SampledToken, index: int) -> None:
    """Raise the error that keeps a row from being sampled, if there is one."""
    if sampled.token_id < 0:
        raise InternalError("the model computed logits that are not numbers")
    error = sample.masks.failed.get(index) or sample.tokens.failed.get(index)
    if error is not None:
        raise error


def _finish_failed(sequence: Sequence, error: Exception) -> Finish:
    """Finish with the closing tokens if the grammar holds some, else with the error."""
    with suppress(Exception):  # what broke may be the grammar
        if sequence.grammar is not None and sequence.grammar.can_close:
            return sequence_output.close_output(sequence)
    return Finish("failed", error=record_of(error))


def _sampling_row(sequence: Sequence, ahead: Rows[int] = ()) -> SamplingRow:
    """The row that draws the next token of a sequence, or the one behind the tokens `ahead`."""
    prompt = sequence.prompt_tokens
    params = sequence.request.sampling
    has_penalties = (
        params.repetition_penalty != 1.0 or params.presence_penalty or params.frequency_penalty
    )
    return SamplingRow(
        params=params,
        position=sequence.output_tokens + len(ahead),
        prompt=sequence.tokens[:prompt] if has_penalties else (),
        output=[*sequence.tokens[prompt:], *ahead] if has_penalties else (),
    )

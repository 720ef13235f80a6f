"""From the logits of a step to the next tokens of its sequences."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Rows
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from agentrt.base.errors import InternalError, record_of
from agentrt.engine.kv.transfer import to_device
from agentrt.engine.sampling import sequence_output
from agentrt.engine.sampling.grammar_masks import GrammarMasks, MaskFiller
from agentrt.engine.sampling.sampler import SampledToken, SampledTokens, SamplingRow, pick
from agentrt.engine.sampling.sequence_output import Finish, SampledStep
from agentrt.engine.sequence.jump_forward import DraftedTokens
from agentrt.engine.sequence.sequence import Sequence
from agentrt_kernels.contract import Kernels

_PLAIN = nullcontext()


@dataclass(slots=True, eq=False)
class PendingSample:
    """Tokens that are being drawn.

    Attributes:
        picks: One a row, maybe still being drawn.
        logits: `[rows, tokens]`, penalised.
        draws: One a row.
        masks: Of the rows.
        words: `[rows, words]` int32 bits of the tokens that may come, or None.
    """

    picks: SampledTokens
    logits: Tensor
    draws: list[SamplingRow]
    masks: GrammarMasks
    words: Tensor | None

    @property
    def token_ids(self) -> Tensor:
        """`[rows]` int64, on the device."""
        return self.picks.token_ids


class TokenSampler:
    """Picks and appends tokens.

    Args:
        eos_ids: Tokens that end an output.
        special_ids: Tokens that are no text, the former among them or not.
        used_ids: Ids from here on are no tokens: the embedding is padded.
        logits_size: Width of the logits.
        kernels: What draws.
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
        self._filler = MaskFiller(logits_size)

    def close(self) -> None:
        """End its threads."""
        self._filler.close()

    def begin(self, rows: Rows[Sequence]) -> Future[GrammarMasks] | None:
        """What can be done for the rows while the forward runs."""
        return self._filler.begin(rows)

    def draw(
        self, rows: Rows[Sequence], logits: Tensor, begun: Future[GrammarMasks] | None
    ) -> PendingSample:
        """Start to draw a token for each row.

        Args:
            rows: Sequences that want a token.
            logits: `[rows, logits_size]` fp32; changed in place.
            begun: What `begin` gave.
        """
        masks = self._filler.finish(rows, begun)  # first: on a GPU the forward is still under way
        with _changing(logits):
            if logits.shape[1] > self._used_ids:
                logits = logits[:, : self._used_ids]
            self._keep_from_ending(rows, logits)
            draws = [_draw(sequence) for sequence in rows]
            words = masks.words(logits)
            picks = pick(self._kernels, logits, draws, words)
        return PendingSample(picks, logits, draws, masks, words)

    def append(
        self,
        rows: Rows[Sequence],
        drawing: PendingSample | None,
        alive: Rows[bool],
        drafted: Mapping[Sequence, DraftedTokens],
    ) -> SampledStep:
        """Wait for the tokens, and append each to its sequence.

        Args:
            rows: Those that were drawn for.
            drawing: What `draw` gave; None where there are no rows.
            alive: Of each row, whether its sequence is not over yet.
            drafted: Guesses that were computed behind rows.
        """
        outcome = SampledStep()
        if drawing is None:
            return outcome
        picked = drawing.picks.wait()
        for index, sequence in enumerate(rows):
            if not alive[index]:
                continue
            outcome.masks_s[sequence.request.request_id] = drawing.masks.seconds[index]
            known = len(sequence.tokens)
            if index in drawing.masks.late:  # the last token is computed again, and drawn for then
                sequence.computed_tokens = min(sequence.computed_tokens, known - 1)
                continue
            try:
                _raise_fault(drawing, picked[index], index)
                finish = self._append(sequence, picked[index], drawing, index)
                if finish is None and sequence in drafted:
                    finish = self._go_on(sequence, known, drafted[sequence])
            except Exception as error:  # of one row; the others go on
                finish = _give_up(sequence, error)
            if finish is not None:
                outcome.finishes.append((sequence, finish))
            elif sequence.tokens[known] != picked[index].token_id:
                # Another was taken; a step that was launched meanwhile has seen the wrong one.
                sequence.computed_tokens = min(sequence.computed_tokens, known)
        return outcome

    def _go_on(self, sequence: Sequence, known: int, drafted: DraftedTokens) -> Finish | None:
        """Draw behind guesses for as long as they are what was drawn.

        Args:
            sequence: Its tokens from `known` on are new.
            known: Tokens before.
            drafted: Guesses of them.
        """
        counted, finish = 0, None
        while finish is None:
            right = drafted.right(sequence.tokens[known:])
            if right == counted:  # something else came
                return None
            sequence.fresh.forced_tokens += right - counted
            sequence.account.forced_tokens += right - counted
            counted = right
            sequence.computed_tokens = known + right
            sequence.reached_tokens = max(sequence.reached_tokens, known + right)
            if known + right < len(sequence.tokens):
                return None
            drawing = self.draw([sequence], drafted.logits[right - 1 : right], None)
            if drawing.masks.late:
                sequence.computed_tokens -= 1
                return None
            picked = drawing.picks.wait()[0]
            _raise_fault(drawing, picked, 0)
            finish = self._append(sequence, picked, drawing, 0)
        return finish

    def _keep_from_ending(self, rows: Rows[Sequence], logits: Tensor) -> None:
        """Take all tokens that are no text from rows whose output is not to end."""
        going = [at for at, one in enumerate(rows) if one.request.sampling.ignore_eos]
        if going:
            at = to_device(going, torch.int64, logits.device)
            no_text = to_device(self._no_text, torch.int64, logits.device)
            logits[at[:, None], no_text] = -torch.inf

    def _append(
        self, sequence: Sequence, picked: SampledToken, drawing: PendingSample, index: int
    ) -> Finish | None:
        def redraw(token_id: int) -> SampledToken:
            logits, words = drawing.logits[index : index + 1], drawing.words
            with _changing(logits):
                logits[0, token_id] = -torch.inf
                mask = None if words is None else words[index : index + 1]
                return pick(self._kernels, logits, [drawing.draws[index].again()], mask).wait()[0]

        return sequence_output.append(sequence, picked, redraw, self._eos_ids)


def _changing(logits: Tensor) -> AbstractContextManager[object]:
    """In which logits may be changed in place: those of inference mode in nothing else."""
    return torch.inference_mode() if logits.is_inference() else _PLAIN


def _raise_fault(drawing: PendingSample, picked: SampledToken, index: int) -> None:
    """What keeps a row from being drawn for, if anything does."""
    if picked.token_id < 0:
        raise InternalError("the model computed logits that are not numbers")
    if index in drawing.masks.failed:
        raise drawing.masks.failed[index]


def _give_up(sequence: Sequence, error: Exception) -> Finish:
    """The grammar cannot go on: its way out where one is held, else the error."""
    if sequence.guide is not None and sequence.guide.closes:
        return sequence_output.close(sequence)
    return Finish("failed", error=record_of(error))


def _draw(sequence: Sequence) -> SamplingRow:
    prompt = sequence.prompt_tokens
    how = sequence.request.sampling
    wants = how.repetition_penalty != 1.0 or how.presence_penalty or how.frequency_penalty
    return SamplingRow(
        sampling=how,
        position=sequence.output_tokens,
        prompt=sequence.tokens[:prompt] if wants else (),
        output=sequence.tokens[prompt:] if wants else (),
    )

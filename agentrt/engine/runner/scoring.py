"""Scoring of a choice's options: how likely the model is to write each, all in one forward.

The prompt is computed as any other, up to its last token. Then every option is a row of one packed
batch: it shares the prompt's pages, and computes that token and its own, with the logits at each.
What a cached prompt lacks of its last page is left to these rows. Nothing is decoded; the computed
KV stays in the radix tree, so that a chat goes on from the chosen option.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from collections.abc import Sequence as Rows
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from agentrt.base.errors import ConstraintError, InternalError
from agentrt.engine.batch.input_packing import SequenceSlice
from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.runner.executor import StepExecutor
from agentrt.engine.sequence.metrics import RequestMetrics
from agentrt.engine.sequence.sequence import NewOutput, Phase, ScoredOptions, Sequence
from agentrt.prompt import Codec
from agentrt.prompt.stop_strings import StopStrings
from agentrt.protocol.step_output import OptionScore
from agentrt.structured.vocabulary import alphabet_of

MAX_LOGITS = 1024
"""Rows of logits in one forward; more are split over several."""


@dataclass(slots=True, eq=False)
class OptionRow:
    """One option in a forward.

    Attributes:
        owner: Sequence of the option.
        option: Index of the option.
        sequence: Holds its slot and pages, for this forward only.
    """

    owner: Sequence
    option: int
    sequence: Sequence

    @property
    def logit_count(self) -> int:
        """Tokens of the option, and the end token behind them."""
        return len(self.sequence.tokens) - self.owner.prompt_tokens + 1


class Scorer:
    """Scores the options of choices with a computed prompt.

    Args:
        executor: Runs the forwards.
        allocator: Allocates slots and pages for the rows.
        codec: Tokenizes options.
        step_tokens: Most tokens of one forward.

    Attributes:
        forwards: Forwards so far.
    """

    def __init__(
        self,
        executor: StepExecutor[Any],
        allocator: KvAllocator,
        codec: Codec,
        step_tokens: int,
    ) -> None:
        self._executor = executor
        self._allocator = allocator
        self._codec = codec
        self._step_tokens = step_tokens
        self.forwards = 0

    def tokenize_options(self, sequence: Sequence) -> int:
        """Tokenize the options of a request.

        Returns:
            Length of the longest, in tokens.

        Raises:
            ConstraintError: One does not fit in `max_tokens`.
        """
        spec, max_tokens = sequence.request.constraint, sequence.request.sampling.max_tokens
        assert spec is not None
        alphabet = alphabet_of(self._codec.vocab)
        sequence.options = ScoredOptions(
            [alphabet.tokenize(option.encode()) for option in spec.options]
        )
        longest = max(map(len, sequence.options.token_ids))
        if longest > max_tokens:
            raise ConstraintError(
                f"the longest option has {longest} tokens, max_tokens is {max_tokens}",
                hint=f"Give max_tokens={longest} or more",
            )
        return longest

    def score_options(self, ready: Rows[Sequence]) -> list[Sequence]:
        """Run one forward over as many options as fit.

        Args:
            ready: Result of `ready_to_score`.

        Returns:
            Sequences with an option in it; their `options` have the scores.

        Raises:
            InternalError: The model computed logits that are not numbers.
        """
        rows: list[OptionRow] = []
        try:
            self._add_rows(ready, rows)
            if rows:
                self._forward(rows)
        finally:
            for row in rows:
                self._allocator.free(row.sequence)
        return list(dict.fromkeys(row.owner for row in rows))

    def _add_rows(self, ready: Rows[Sequence], rows: list[OptionRow]) -> None:
        """Add rows with slots and pages, as many as fit in one forward."""
        tokens, logits = self._step_tokens, MAX_LOGITS
        for owner in ready:
            whole_pages = owner.whole_pages(self._allocator.page_tokens)
            if self._allocator.cached_tokens(owner.key) < whole_pages:
                owner.phase = Phase.WAITING  # its prompt has been evicted
                continue
            assert owner.options is not None
            for at in owner.options.unscored:
                row = self._row(owner, at)
                if row is None:
                    return
                pending = len(row.sequence.tokens) - row.sequence.computed_tokens
                if rows and (pending > tokens or row.logit_count > logits):
                    self._allocator.free(row.sequence)
                    return
                tokens, logits = tokens - pending, logits - row.logit_count
                rows.append(row)

    def _row(self, owner: Sequence, at: int) -> OptionRow | None:
        """The prompt with one option behind it; None if slots or pages are short."""
        if self._allocator.free_slots == 0:
            return None
        one = _copy_of(owner)
        if not self._allocator.allocate(one, spare_pages=0):
            return None
        owner.reached_tokens = max(owner.reached_tokens, one.computed_tokens)
        assert owner.options is not None
        one.tokens += owner.options.token_ids[at]
        pending = len(one.tokens) - one.computed_tokens
        if not self._allocator.extend(one, self._allocator.missing_pages(one, pending)):
            self._allocator.free(one)
            return None
        return OptionRow(owner, at, one)

    def _forward(self, rows: list[OptionRow]) -> None:
        slices: list[SequenceSlice] = []
        logit_rows: list[int] = []
        start = 0
        for row in rows:
            one = row.sequence
            pending = one.tokens[one.computed_tokens :]
            slices.append(
                SequenceSlice(
                    one.slot,
                    pending,
                    one.computed_tokens,
                    wants_logits=False,
                    angle_offset=one.angle_offset,
                    adapter=one.adapter,
                )
            )
            first = start + row.owner.prompt_tokens - 1 - one.computed_tokens
            logit_rows += range(first, first + row.logit_count)
            start += len(pending)
        logits = self._executor.logits_at(slices, logit_rows)[:, : self._codec.vocab.size]
        self.forwards += 1
        for row in rows:
            row.sequence.computed_tokens = len(row.sequence.tokens)
        for row, logprob in zip(rows, self._logprobs(rows, logits), strict=True):
            assert row.owner.options is not None
            row.owner.options.scores[row.option] = OptionScore(logprob, row.logit_count)

    def _logprobs(self, rows: list[OptionRow], logits: Tensor) -> list[float]:
        """Sum over each row's tokens; `logits`: `[logits of all rows, tokens]`."""
        found: list[Tensor] = []
        ends = torch.tensor(self._codec.vocab.eos_ids, device=logits.device)
        at = 0
        with torch.inference_mode():
            for row in rows:
                logprobs = torch.log_softmax(logits[at : at + row.logit_count], -1)
                tokens = row.sequence.tokens[row.owner.prompt_tokens :]
                ids = torch.tensor(tokens, dtype=torch.int64, device=logits.device)
                written = logprobs[:-1].gather(1, ids[:, None]).sum()
                found.append(written + torch.logsumexp(logprobs[-1, ends], 0))
                at += row.logit_count
            numbers: list[float] = torch.stack(found).tolist()
        if any(math.isnan(number) for number in numbers):
            raise InternalError("the model computed logits that are not numbers")
        return numbers


def _copy_of(owner: Sequence) -> Sequence:
    """The prompt of `owner` as a sequence that is not in the scheduler."""
    return replace(
        owner,
        tokens=owner.tokens[: owner.prompt_tokens],
        metrics=RequestMetrics(0.0, 0.0),
        stops=StopStrings(()),
        pages=[],
        new_output=NewOutput(),
    )


def ready_to_score(sequences: Iterable[Sequence]) -> list[Sequence]:
    """Choices with a prompt that is computed as far as it can be cached."""
    return [
        one
        for one in sequences
        if one.options is not None and one.complete and one.phase is Phase.HELD
    ]

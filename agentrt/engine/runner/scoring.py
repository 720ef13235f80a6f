"""Options of a choice, scored: how likely the model is to write each, all in one forward.

The prompt is computed as any other, up to its last whole page. Then every option is a row of one
packed batch: it shares the prompt's pages, computes the few tokens behind them and its own, and the
logits at each of its places are asked for. Nothing is decoded; what was computed stays in the tree,
so that a chat goes on from the chosen option.
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
from agentrt.engine.batch.part import SequenceSlice
from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.runner.executor import StepExecutor
from agentrt.engine.sequence.metrics import RequestMetrics
from agentrt.engine.sequence.sequence import NewOutput, Phase, ScoredOptions, Sequence
from agentrt.engine.sequence.stop_strings import StopStrings
from agentrt.prompt import Codec
from agentrt.protocol.step_output import OptionScore
from agentrt.structured.vocabulary import alphabet_of

MOST_LOGITS = 1024
"""Places whose logits are asked for in one forward; with more of them there are several."""


@dataclass(slots=True, eq=False)
class OptionRow:
    """One option in a forward.

    Attributes:
        owner: Whose option it is.
        option: Which.
        sequence: Holds its slot and pages, for this forward only.
    """

    owner: Sequence
    option: int
    sequence: Sequence

    @property
    def places(self) -> int:
        """Its tokens and the end token behind them."""
        return len(self.sequence.tokens) - self.owner.prompt_tokens + 1


class Scorer:
    """Scores the choices whose prompt is computed.

    Args:
        executor: What computes.
        paging: Where rows get their slots and pages.
        codec: Spells options.
        step_tokens: Most tokens of one forward.

    Attributes:
        forwards: Forwards so far.
    """

    def __init__(
        self,
        executor: StepExecutor[Any],
        paging: KvAllocator,
        codec: Codec,
        step_tokens: int,
    ) -> None:
        self._executor = executor
        self._paging = paging
        self._codec = codec
        self._step_tokens = step_tokens
        self.forwards = 0

    def spell(self, sequence: Sequence) -> int:
        """Work out the tokens of a request's options.

        Returns:
            How many the longest has.

        Raises:
            ConstraintError: One does not fit into `max_tokens`.
        """
        spec, most = sequence.request.constraint, sequence.request.sampling.max_tokens
        assert spec is not None
        alphabet = alphabet_of(self._codec.vocab)
        sequence.options = ScoredOptions(
            [alphabet.spell(option.encode()) for option in spec.options]
        )
        longest = max(map(len, sequence.options.token_ids))
        if longest > most:
            raise ConstraintError(
                f"the longest option has {longest} tokens, max_tokens is {most}",
                hint=f"Give max_tokens={longest} or more",
            )
        return longest

    def score(self, ready: Rows[Sequence]) -> list[Sequence]:
        """One forward over as many options as fit.

        Args:
            ready: As `ready_to_score` finds them.

        Returns:
            Those that had an option in it; their `options` know the scores.

        Raises:
            InternalError: The model computed logits that are not numbers.
        """
        rows = self._rows(ready)
        if not rows:
            return []
        try:
            self._forward(rows)
        finally:
            for row in rows:
                self._paging.leave(row.sequence)
        return list(dict.fromkeys(row.owner for row in rows))

    def _rows(self, ready: Rows[Sequence]) -> list[OptionRow]:
        """Rows with a slot and pages each, as many as one forward takes."""
        rows: list[OptionRow] = []
        tokens, places = self._step_tokens, MOST_LOGITS
        for owner in ready:
            keeps = (owner.prompt_tokens - 1) // self._paging.page_tokens
            if self._paging.known_tokens(owner.key) < keeps * self._paging.page_tokens:
                owner.phase = Phase.WAITING  # its prompt was evicted meanwhile
                continue
            assert owner.options is not None
            for at in owner.options.left:
                row = self._row(owner, at)
                if row is None:
                    return rows
                pending = len(row.sequence.tokens) - row.sequence.computed_tokens
                if rows and (pending > tokens or row.places > places):
                    self._paging.leave(row.sequence)
                    return rows
                tokens, places = tokens - pending, places - row.places
                rows.append(row)
        return rows

    def _row(self, owner: Sequence, at: int) -> OptionRow | None:
        """The prompt with one option behind it; None where slots or pages are short."""
        if self._paging.free_slots == 0:
            return None
        one = _copy_of(owner)
        if not self._paging.admit(one, spare_pages=0):
            return None
        assert owner.options is not None
        one.tokens += owner.options.token_ids[at]
        pending = len(one.tokens) - one.computed_tokens
        if not self._paging.extend(one, self._paging.missing_pages(one, pending)):
            self._paging.leave(one)
            return None
        return OptionRow(owner, at, one)

    def _forward(self, rows: list[OptionRow]) -> None:
        parts: list[SequenceSlice] = []
        wanted: list[int] = []
        begin = 0
        for row in rows:
            one = row.sequence
            pending = one.tokens[one.computed_tokens :]
            parts.append(SequenceSlice(one.slot, pending, one.computed_tokens, wants_logits=False))
            first = begin + row.owner.prompt_tokens - 1 - one.computed_tokens
            wanted += range(first, first + row.places)
            begin += len(pending)
        logits = self._executor.logits_at(parts, wanted)[:, : self._codec.vocab.size]
        self.forwards += 1
        for row in rows:
            row.sequence.computed_tokens = len(row.sequence.tokens)
        for row, logprob in zip(rows, self._logprobs(rows, logits), strict=True):
            assert row.owner.options is not None
            row.owner.options.scores[row.option] = OptionScore(logprob, row.places)

    def _logprobs(self, rows: list[OptionRow], logits: Tensor) -> list[float]:
        """Of each row, the sum over its places; `logits`: `[places of all rows, tokens]`."""
        found: list[Tensor] = []
        ends = torch.tensor(self._codec.vocab.eos_ids, device=logits.device)
        at = 0
        with torch.inference_mode():
            for row in rows:
                told = torch.log_softmax(logits[at : at + row.places], -1)
                tokens = row.sequence.tokens[row.owner.prompt_tokens :]
                ids = torch.tensor(tokens, dtype=torch.int64, device=logits.device)
                written = told[:-1].gather(1, ids[:, None]).sum()
                found.append(written + torch.logsumexp(told[-1, ends], 0))
                at += row.places
            numbers: list[float] = torch.stack(found).tolist()
        if any(math.isnan(number) for number in numbers):
            raise InternalError("the model computed logits that are not numbers")
        return numbers


def _copy_of(owner: Sequence) -> Sequence:
    """The prompt of `owner` as a sequence of its own, which no roster knows."""
    return replace(
        owner,
        tokens=owner.tokens[: owner.prompt_tokens],
        account=RequestMetrics(0.0, 0.0),
        stops=StopStrings(()),
        pages=[],
        fresh=NewOutput(),
    )


def ready_to_score(sequences: Iterable[Sequence]) -> list[Sequence]:
    """Choices whose prompt is computed as far as it can be kept."""
    return [
        one
        for one in sequences
        if one.options is not None and one.complete and one.phase is Phase.HELD
    ]

"""The choice of a source: for each sequence of a step, the draft that is expected to gain most.

Texts are looked up first: that costs no forward. A draft model drafts for a sequence if its draft
is expected to save more steps than that of the best text.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Rows
from dataclasses import dataclass

from agentrt.base.config import EngineConfig
from agentrt.engine.drafts.acceptance import RateKey, draft_length, expected_gain
from agentrt.engine.drafts.draft_costs import DraftCosts
from agentrt.engine.drafts.draft_model import DraftModel
from agentrt.engine.drafts.sequence_drafts import ALL_TEXTS, SequenceDrafts
from agentrt.engine.drafts.site_outputs import OutputsBySite
from agentrt.engine.sequence.draft import Draft
from agentrt.engine.sequence.sequence import Sequence
from agentrt.protocol.step_output import DraftSource

_MAX_DRAFT_TOKENS = 15
_MAX_CUDA_DRAFT_TOKENS = 7
"""Tokens of a draft of adaptive length; a captured graph has at most eight rows a sequence."""

_PROBE_STEPS = 64
"""Steps after which a source that does not pay is tried again, with one token.

Above the knee a row takes a sequence's share of a step, so that probes take a 64th of the time.
"""

_PROBE_SEQUENCES = 16
"""Sequences of which one tries the draft model anew, whatever is known of it at its call site."""

MODEL_KEY: RateKey = ("model", True)
"""Key of the acceptance rate of a draft model."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """Draft of a sequence from texts.

    Attributes:
        draft: Draft from a text, or of forced bytes alone.
        key: Source of a draft from a text, or None.
        gain: Steps that such a draft is expected to save.
    """

    draft: Draft
    key: RateKey | None = None
    gain: float = 0.0


class SourceChoice:
    """Chooses a source and a length for each draft.

    Args:
        config: Config of the engine.
        costs: Costs of a row and of a forward of the draft model.
        model: Draft model, or None.

    Attributes:
        is_adaptive: Whether the length of drafts depends on what they cost.
        limit: Most tokens of a draft; 0 drafts nothing but forced bytes.
    """

    def __init__(self, config: EngineConfig, costs: DraftCosts, model: DraftModel | None) -> None:
        self._costs = costs
        self._model = model
        wanted = config.speculate_tokens
        self.is_adaptive = wanted == "auto"
        self._sources: tuple[DraftSource, ...] = (
            ALL_TEXTS if config.draft_texts == "all" else ("prompt",)
        )
        if wanted == "auto":
            on_cuda = config.device == "cuda"
            self.limit = _MAX_CUDA_DRAFT_TOKENS if on_cuda else _MAX_DRAFT_TOKENS
        else:
            self.limit = 0 if wanted == "off" else wanted
        self._sites = OutputsBySite()
        self._sequences: dict[Sequence, SequenceDrafts] = {}
        self._unpaid_steps: dict[Sequence, int] = {}
        self._opened = 0

    def look_up(self, sequence: Sequence) -> Lookup | None:
        """The draft of a sequence from texts, within its own limits; None if there is none."""
        left_tokens = _left_tokens(sequence)
        forced = sequence.forced_draft[: max(0, left_tokens)]
        of_grammar = Lookup(Draft(forced, len(forced))) if forced else None
        limit = min(self.limit, left_tokens)
        if limit <= len(forced):
            return of_grammar
        guess = self.drafts_of(sequence).best_guess(limit)
        if guess is None or guess.token_ids[: len(forced)] != forced:
            return of_grammar
        length = limit
        if self.is_adaptive:
            length = draft_length(guess.rate, self._costs.row, limit) or self._probe(sequence)
        token_ids = guess.token_ids[: max(length, len(forced))]
        token_ids = token_ids[: max(_count_allowed(sequence, token_ids), len(forced))]
        if len(token_ids) <= len(forced):
            return of_grammar
        gain = expected_gain(guess.rate, self._costs.row, len(token_ids))
        return Lookup(Draft(token_ids, len(forced), guess.key[0]), guess.key, gain)

    def model_tokens(
        self, rows: Rows[Sequence], lookups: Mapping[Sequence, Lookup]
    ) -> dict[Sequence, int]:
        """Tokens to draft by the model for each sequence for which it does best.

        The fewer sequences it drafts for, the more a forward of it costs each.
        """
        if self._model is None:
            return {}
        found: dict[Sequence, int] = {}
        drafted = rows
        while drafted:
            found = {}
            for sequence in drafted:
                tokens, gain = self._model_draft(self._model, sequence, len(rows) / len(drafted))
                lookup = lookups.get(sequence)
                least_gain = lookup.gain if lookup is not None else 0.0
                if tokens > len(sequence.forced_draft) and gain > least_gain:
                    found[sequence] = tokens
            if len(found) == len(drafted):
                break
            drafted = list(found)
        return found

    def expects_draft(self, sequence: Sequence) -> bool:
        """Whether a draft is likely behind the token that is being sampled for a sequence."""
        if self._model is not None and self._model_draft(self._model, sequence, 1.0)[0] > 1:
            return True
        guess = self.drafts_of(sequence).best_guess(2)
        return guess is not None and len(guess.token_ids) > 1

    def will_draft_by_model(self, sequence: Sequence) -> bool:
        """Whether the model is likely to draft for a sequence once its prompt is computed."""
        request = sequence.request
        if request.scored:
            return False
        if not self.is_adaptive:
            return self.limit > 0
        rate = self._sites.of(request.cache_salt, request.site).rates.rate(MODEL_KEY)
        return draft_length(rate, self._costs.row + self._costs.forward, self.limit) > 0

    def drafts_of(self, sequence: Sequence) -> SequenceDrafts:
        """Guesses for a sequence."""
        found = self._sequences.get(sequence)
        if found is None:
            request = sequence.request
            outputs = self._sites.of(request.cache_salt, request.site)
            found = self._sequences[sequence] = SequenceDrafts(sequence, outputs, self._sources)
            self._opened += 1
            if self._opened % _PROBE_SEQUENCES == 0:
                found.rates.forget(MODEL_KEY)
        return found

    def forget(self, sequence: Sequence) -> None:
        """Keep the output of a finished sequence for its call site, and nothing else."""
        drafts = self._sequences.pop(sequence, None)
        self._unpaid_steps.pop(sequence, None)
        if drafts is not None:
            drafts.close()

    def _model_draft(
        self, model: DraftModel, sequence: Sequence, share: float
    ) -> tuple[int, float]:
        """Tokens to draft by the model for a sequence, and what they gain.

        Args:
            model: The draft model.
            sequence: The sequence.
            share: Sequences of the step by those that share a forward.
        """
        limit = min(self.limit, _left_tokens(sequence))
        if model.window_tokens:
            limit = min(limit, model.window_tokens - len(sequence.tokens))
        grammar = sequence.grammar
        if limit <= 0 or (grammar is not None and grammar.mask_place.is_slow):
            return 0, 0.0
        rate = self.drafts_of(sequence).rates.rate(MODEL_KEY)
        cost = self._costs.row + share * self._costs.forward
        tokens = draft_length(rate, cost, limit) if self.is_adaptive else limit
        return tokens, expected_gain(rate, cost, tokens)

    def _probe(self, sequence: Sequence) -> int:
        """Length of a draft that does not pay: 1 now and then, else 0."""
        steps = self._unpaid_steps.get(sequence, 0) + 1
        self._unpaid_steps[sequence] = steps % _PROBE_STEPS
        return int(steps == _PROBE_STEPS)


def _left_tokens(sequence: Sequence) -> int:
    """Most tokens of a draft: one more is drawn behind it."""
    return sequence.max_output_tokens - sequence.output_tokens - 1


def _count_allowed(sequence: Sequence, token_ids: list[int]) -> int:
    grammar = sequence.grammar
    return len(token_ids) if grammar is None else grammar.count_accepted(token_ids)

"""The drafts of a step: which sequences get one, how long it is, and what becomes of it.

Drafts take what the schedule leaves: no sequence is preempted for them, and none waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Rows
from dataclasses import dataclass

from agentrt.base.config import EngineConfig
from agentrt.engine.drafts.acceptance import RateKey, draft_length, expected_gain
from agentrt.engine.drafts.draft_costs import DraftCosts
from agentrt.engine.drafts.draft_model import DraftModel, DraftOrder
from agentrt.engine.drafts.sequence_drafts import SequenceDrafts
from agentrt.engine.drafts.site_outputs import OutputsBySite
from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.sequence.draft import Draft, Verification
from agentrt.engine.sequence.sequence import Sequence
from agentrt.protocol.step_output import StepRecord

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


class Drafter:
    """Drafts the next tokens of sequences.

    Args:
        config: Config of the engine.
        allocator: Allocator of the KV pages.
        model: Draft model, or None.

    Attributes:
        is_adaptive: Whether the length of drafts depends on what they cost.
    """

    def __init__(
        self, config: EngineConfig, allocator: KvAllocator, model: DraftModel | None = None
    ) -> None:
        self._allocator = allocator
        self._model = model
        self._step_tokens = config.step_tokens
        wanted = config.speculate_tokens
        self.is_adaptive = wanted == "auto"
        if wanted == "auto":
            on_cuda = config.device == "cuda"
            self._limit = _MAX_CUDA_DRAFT_TOKENS if on_cuda else _MAX_DRAFT_TOKENS
        else:
            self._limit = 0 if wanted == "off" else wanted
        self._sites = OutputsBySite()
        self._sequences: dict[Sequence, SequenceDrafts] = {}
        self._keys: dict[Sequence, RateKey] = {}
        self._unpaid_steps: dict[Sequence, int] = {}
        self._costs = DraftCosts(model)
        self._opened = 0
        self._drafting_s = 0.0

    def plan(
        self, scheduled: Rows[tuple[Sequence, int]], *, before_tokens: bool = False
    ) -> Mapping[Sequence, Draft]:
        """Drafts to compute with a step; allocates the pages that they need.

        Args:
            scheduled: Sequences of the step, each with the number of tokens to compute.
            before_tokens: Whether the tokens of the last step are not known yet, so that nothing
                can follow them.
        """
        if self._model is not None:
            for sequence, _ in scheduled:
                self._model.roll_back(sequence)
        if before_tokens or not (self._limit or any(one.forced_draft for one, _ in scheduled)):
            return {}
        if self.is_adaptive:
            self._costs.plan(scheduled)
        rows = [sequence for sequence, count in scheduled if _is_sampled(sequence, count)]
        lookups = {sequence: self._look_up(sequence) for sequence in rows}
        orders = self._model_tokens(rows, lookups) if self._model is not None else {}
        free_tokens = self._step_tokens - sum(count for _, count in scheduled)
        drafts: dict[Sequence, Draft] = {}
        for sequence in rows:
            draft = lookups[sequence].draft
            wanted_tokens = orders.get(sequence) or (len(draft.token_ids) if draft else 0)
            wanted_tokens = min(wanted_tokens, free_tokens)
            if sequence.rope_threshold:  # tokens beyond it have other angles
                wanted_tokens = min(wanted_tokens, sequence.rope_threshold - len(sequence.tokens))
            tokens = 0
            if wanted_tokens > 0:
                tokens = self._allocate(sequence, wanted_tokens, len(scheduled))
            if sequence in orders:
                orders[sequence] = tokens
            if tokens > 0:
                free_tokens -= tokens
                if draft is not None:
                    del draft.token_ids[tokens:]
                    drafts[sequence] = draft
        for sequence, lookup in lookups.items():
            if lookup.key is not None and sequence in drafts:
                self._keys[sequence] = lookup.key
        if self._model is not None:
            drafts |= self._draft_by_model(self._model, orders, scheduled)
        return drafts

    def expects_drafts(self, sequences: Iterable[Sequence]) -> bool:
        """Whether a draft is likely behind the tokens that are being sampled for `sequences`."""
        if not self._limit:
            return False
        for sequence in sequences:
            if not sequence.complete or sequence.request.scored:
                continue
            if self._model is not None and self._model_draft(sequence, 1.0)[0] > 1:
                return True
            guess = self._drafts_of(sequence).best_guess(2)
            if guess is not None and len(guess.token_ids) > 1:
                return True
        return False

    def note_verified(self, verified: Rows[Verification]) -> None:
        """Learn from the drafts of a step."""
        for one in verified:
            key = self._keys.pop(one.sequence, None)
            forced = one.draft.forced_tokens
            if key is None or one.matching_tokens < forced:
                continue
            accepted = one.matching_tokens - forced
            is_whole = one.matching_tokens == len(one.draft.token_ids)
            self._drafts_of(one.sequence).note(key, accepted, is_whole=is_whole)

    def note_step(self, step: StepRecord) -> None:
        """Learn from the time of a step."""
        self._costs.note_step(step, self._drafting_s)
        self._drafting_s = 0.0

    def forget(self, sequence: Sequence) -> None:
        """Keep the output of a finished sequence for its call site, and nothing else."""
        drafts = self._sequences.pop(sequence, None)
        self._keys.pop(sequence, None)
        self._unpaid_steps.pop(sequence, None)
        if drafts is not None:
            drafts.close()

    def _look_up(self, sequence: Sequence) -> Lookup:
        """The draft of a sequence from texts, within its own limits."""
        left_tokens = _left_tokens(sequence)
        forced = sequence.forced_draft[: max(0, left_tokens)]
        of_grammar = Lookup(Draft(forced, len(forced)) if forced else None)
        limit = min(self._limit, left_tokens)
        if limit <= len(forced):
            return of_grammar
        guess = self._drafts_of(sequence).best_guess(limit)
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

    def _model_tokens(
        self, rows: Rows[Sequence], lookups: Mapping[Sequence, Lookup]
    ) -> dict[Sequence, int]:
        """Tokens to draft by the model for each sequence for which it does best.

        The fewer sequences it drafts for, the more a forward of it costs each.
        """
        found: dict[Sequence, int] = {}
        drafted = rows
        while drafted:
            found = {}
            for sequence in drafted:
                tokens, gain = self._model_draft(sequence, len(rows) / len(drafted))
                if tokens > len(sequence.forced_draft) and gain > lookups[sequence].gain:
                    found[sequence] = tokens
            if len(found) == len(drafted):
                break
            drafted = list(found)
        return found

    def _model_draft(self, sequence: Sequence, share: float) -> tuple[int, float]:
        """Tokens to draft by the model for a sequence, and what they gain.

        Args:
            sequence: The sequence.
            share: Sequences of the step by those that share a forward.
        """
        assert self._model is not None
        limit = min(self._limit, _left_tokens(sequence))
        if self._model.window_tokens:
            limit = min(limit, self._model.window_tokens - len(sequence.tokens))
        grammar = sequence.grammar
        if limit <= 0 or (grammar is not None and grammar.mask_place.is_slow):
            return 0, 0.0
        rate = self._drafts_of(sequence).rates.rate(MODEL_KEY)
        cost = self._costs.row + share * self._costs.forward
        tokens = draft_length(rate, cost, limit) if self.is_adaptive else limit
        return tokens, expected_gain(rate, cost, tokens)

    def _draft_by_model(
        self,
        model: DraftModel,
        tokens: Mapping[Sequence, int],
        scheduled: Rows[tuple[Sequence, int]],
    ) -> dict[Sequence, Draft]:
        """Drafts of the model; it computes prompts along for which it will draft."""
        orders = {
            sequence: DraftOrder(count, sequence.forced_draft)
            for sequence, count in tokens.items()
            if count > len(sequence.forced_draft)
        }
        prefills = [
            (sequence, count)
            for sequence, count in scheduled
            if sequence not in orders and sequence.is_prefilling and self._will_draft(sequence)
        ]
        if not orders and not prefills:
            return {}
        drafts: dict[Sequence, Draft] = {}
        for sequence, token_ids in model.draft(orders, prefills).items():
            drafts[sequence] = Draft(token_ids, len(sequence.forced_draft), "model")
            self._keys[sequence] = MODEL_KEY
        self._drafting_s = model.drafting_s
        return drafts

    def _will_draft(self, sequence: Sequence) -> bool:
        """Whether the model is likely to draft for a sequence once its prompt is computed."""
        request = sequence.request
        if request.scored:
            return False
        if not self.is_adaptive:
            return self._limit > 0
        rate = self._sites.of(request.cache_salt, request.site).rates.rate(MODEL_KEY)
        return draft_length(rate, self._costs.row + self._costs.forward, self._limit) > 0

    def _probe(self, sequence: Sequence) -> int:
        """Length of a draft that does not pay: 1 now and then, else 0."""
        steps = self._unpaid_steps.get(sequence, 0) + 1
        self._unpaid_steps[sequence] = steps % _PROBE_STEPS
        return int(steps == _PROBE_STEPS)

    def _drafts_of(self, sequence: Sequence) -> SequenceDrafts:
        found = self._sequences.get(sequence)
        if found is None:
            request = sequence.request
            outputs = self._sites.of(request.cache_salt, request.site)
            found = self._sequences[sequence] = SequenceDrafts(sequence, outputs)
            self._opened += 1
            if self._opened % _PROBE_SEQUENCES == 0:
                found.rates.forget(MODEL_KEY)
        return found

    def _allocate(self, sequence: Sequence, tokens: int, sequences: int) -> int:
        """Tokens of a draft for which there are pages; takes none that others need soon."""
        allocator = self._allocator
        size = allocator.page_tokens
        known_tokens = len(sequence.tokens)
        missing = -(-(known_tokens + tokens) // size) - len(sequence.pages)
        if missing > 0 and (
            allocator.available_pages < missing + sequences
            or not allocator.extend(sequence, missing)
        ):
            return min(tokens, len(sequence.pages) * size - known_tokens)
        return tokens


@dataclass(frozen=True, slots=True)
class Lookup:
    """Draft of a sequence from texts, if they have one.

    Attributes:
        draft: Draft from a text, or of forced bytes alone, or None.
        key: Source of a draft from a text.
        gain: Steps that such a draft is expected to save.
    """

    draft: Draft | None
    key: RateKey | None = None
    gain: float = 0.0


def _left_tokens(sequence: Sequence) -> int:
    """Most tokens of a draft: one more is drawn behind it."""
    return sequence.max_output_tokens - sequence.output_tokens - 1


def _is_sampled(sequence: Sequence, count: int) -> bool:
    """Whether a token is sampled for the sequence behind `count` more, all of them known."""
    known_tokens = len(sequence.tokens)
    return (
        sequence.complete
        and not sequence.request.scored
        and sequence.computed_tokens + count == known_tokens
    )


def _count_allowed(sequence: Sequence, token_ids: list[int]) -> int:
    grammar = sequence.grammar
    return len(token_ids) if grammar is None else grammar.count_accepted(token_ids)

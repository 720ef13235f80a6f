"""The choice of a source: for each sequence of a step, the draft that is expected to gain most.

Texts are looked up first: that costs no forward. A draft model drafts for a sequence if its draft
is expected to save more steps than that of the best text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Rows
from dataclasses import dataclass, field
from math import inf

from agentrt.base.clock import Clock
from agentrt.base.config import EngineConfig
from agentrt.engine.drafts.acceptance import RateKey
from agentrt.engine.drafts.draft_costs import DraftCosts
from agentrt.engine.drafts.draft_model import DraftModel
from agentrt.engine.drafts.lookup_rests import LookupRests
from agentrt.engine.drafts.probes import Probes
from agentrt.engine.drafts.row_sharing import share_rows
from agentrt.engine.drafts.sequence_drafts import ALL_TEXTS, SequenceDrafts
from agentrt.engine.drafts.site_outputs import OutputsBySite
from agentrt.engine.sequence.draft import Draft
from agentrt.engine.sequence.sequence import Sequence
from agentrt.kv_cache import kv_salt
from agentrt.protocol.step_output import DraftSource

_MAX_DRAFT_TOKENS = 15
_MAX_CUDA_DRAFT_TOKENS = 7
"""Tokens of a draft of adaptive length; a captured graph has at most eight rows a sequence."""

_PROBE_SEQUENCES = 16
"""Sequences of which one tries the draft model anew, whatever is known of it at its call site."""

_TIMED_TURNS = 8
"""Turns of look-ups of which one is timed, to know what they cost."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """Draft of a sequence from texts.

    Attributes:
        draft: Draft from a text, or of forced bytes alone.
        key: Source of a draft from a text, or None.
        chances: Probabilities that the tokens behind the forced ones are accepted, each with those
            before it; infinite for a token that is tried whatever it costs.
    """

    draft: Draft
    key: RateKey | None = None
    chances: list[float] = field(default_factory=list)

    def keep(self, guessed_tokens: int) -> None:
        """Keep so many tokens behind the forced ones."""
        del self.draft.token_ids[self.draft.forced_tokens + guessed_tokens :]
        del self.chances[guessed_tokens:]


def model_key(model: DraftModel) -> RateKey:
    """Key of the acceptance rate of a draft model."""
    return model.source, True


class SourceChoice:
    """Chooses a source and a length for each draft.

    Args:
        config: Config of the engine.
        clock: Clock for the time of look-ups.
        costs: Costs of a row and of a forward of the draft model.
        model: Draft model, or None.

    Attributes:
        is_adaptive: Whether the length of drafts depends on what they cost.
        limit: Most tokens of a draft; 0 drafts nothing but forced bytes.
    """

    def __init__(
        self, config: EngineConfig, clock: Clock, costs: DraftCosts, model: DraftModel | None
    ) -> None:
        self._clock = clock
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
        self._rests = LookupRests()
        self._probes = Probes()
        self._due: set[DraftSource] = set()
        self._opened = self._turns = 0

    def look_up(self, rows: Rows[Sequence]) -> dict[Sequence, Lookup]:
        """Drafts of sequences from texts, each within its own limits, and of forced bytes."""
        rests = self._rests
        found: dict[Sequence, Lookup] = {}
        began_s, tried = self._begin_look_ups(), 0
        for sequence in rows:
            left_tokens = _left_tokens(sequence)
            forced = sequence.forced_draft[: max(0, left_tokens)]
            limit = min(self.limit, left_tokens)
            lookup = None
            if limit > len(forced) and not rests.is_resting(sequence):
                tried += 1
                lookup = self._look_up(sequence, forced, limit)
                rests.note(sequence, found=lookup is not None)
            if lookup is not None:
                found[sequence] = lookup
            elif forced:
                found[sequence] = Lookup(Draft(forced, len(forced)))
        if began_s is not None:
            self._note_look_ups(began_s, tried)
        self._due.clear()
        return found

    def share(self, lookups: Rows[Lookup], free_rows: int, *, waits: bool) -> None:
        """Shorten drafts from texts to what pays in a step with all of them.

        Args:
            lookups: The drafts.
            free_rows: Most rows of them.
            waits: Whether the next step waits for this one's tokens anyway. If not, it does for
                these drafts, and they have to be worth it.
        """
        if not self.is_adaptive or not lookups:
            return
        forced_rows = sum(one.draft.forced_tokens for one in lookups)
        lengths = share_rows(
            [one.chances for one in lookups],
            lambda rows: self._costs.row(forced_rows + rows),
            free_rows - forced_rows,
        )
        for one, length in zip(lookups, lengths, strict=True):
            one.keep(length)
        if not (waits or forced_rows):
            cost = self._costs.row(0)
            gain = sum(chance - cost for one in lookups for chance in one.chances)
            if gain <= self._costs.wait:
                for one in lookups:
                    one.keep(0)

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
                least_gain = self._gain(lookups.get(sequence))
                if tokens > len(sequence.forced_draft) and gain > least_gain:
                    found[sequence] = tokens
            if len(found) == len(drafted):
                break
            drafted = list(found)
        return found

    def expected_gain(self, rows: Iterable[Sequence]) -> float:
        """Steps that drafts are expected to save behind the tokens that are being sampled.

        Infinite if a source is to be tried, whatever it costs.
        """
        began_s, tried = self._begin_look_ups(), 0
        total = 0.0
        for sequence in rows:
            gain = 0.0
            if self._model is not None:
                tokens, gain = self._model_draft(self._model, sequence, 1.0)
                gain = gain if tokens > 1 else 0.0
            if not self._rests.is_resting(sequence):
                tried += 1
                found = self._gain_behind(sequence)
                self._rests.note(sequence, found=found > 0.0)
                gain = max(gain, found)
            total += gain
        if began_s is not None:
            self._note_look_ups(began_s, tried)
        return total

    def will_draft_by_model(self, sequence: Sequence) -> bool:
        """Whether the model is likely to draft for a sequence once its prompt is computed."""
        request = sequence.request
        if request.scored:
            return False
        if self._model is None or not self.is_adaptive:
            return self._model is not None and self.limit > 0
        rate = self._sites.of(
            kv_salt(request.cache_salt, request.adapter), request.site
        ).rates.rate(model_key(self._model))
        return rate > self._costs.row(0) + self._costs.forward

    def drafts_of(self, sequence: Sequence) -> SequenceDrafts:
        """Guesses for a sequence."""
        found = self._sequences.get(sequence)
        if found is None:
            request = sequence.request
            outputs = self._sites.of(kv_salt(request.cache_salt, request.adapter), request.site)
            found = self._sequences[sequence] = SequenceDrafts(sequence, outputs, self._sources)
            self._opened += 1
            if self._model is not None and self._opened % _PROBE_SEQUENCES == 0:
                found.try_model()
        return found

    def forget(self, sequence: Sequence) -> None:
        """Keep the output of a finished sequence for its call site, and nothing else."""
        drafts = self._sequences.pop(sequence, None)
        self._rests.forget(sequence)
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
        chances = self.drafts_of(sequence).model_rates.chances(model_key(model), limit)
        if not self.is_adaptive:
            return limit, sum(chances)
        cost = self._costs.row(0) + share * self._costs.forward
        tokens = sum(chance > cost for chance in chances)
        return tokens, sum(chances[:tokens]) - cost * tokens

    def _look_up(self, sequence: Sequence, forced: list[int], limit: int) -> Lookup | None:
        """A draft from a text that goes on behind the forced tokens, or None."""
        guess = self.drafts_of(sequence).best_guess(limit)
        if guess is None or guess.token_ids[: len(forced)] != forced:
            return None
        length, chances = limit - len(forced), guess.chances
        if self.is_adaptive:
            cost = self._costs.row(0)
            length = sum(chance > cost for chance in chances[:length])
            if length:
                self._probes.note_paying(guess.key[0])
            elif guess.key[0] in self._due or self._probes.is_due(guess.key[0]):
                self._due.discard(guess.key[0])
                length, chances = 1, [inf]
        token_ids = guess.token_ids[: len(forced) + length]
        if len(token_ids) > len(forced):
            token_ids = token_ids[: _count_allowed(sequence, token_ids)]
        if len(token_ids) <= len(forced):
            return None
        draft = Draft(token_ids, len(forced), guess.key[0])
        return Lookup(draft, guess.key, chances[: len(token_ids) - len(forced)])

    def _gain_behind(self, sequence: Sequence) -> float:
        """Steps that a draft from a text saves behind the next token, infinite for a probe."""
        guess = self.drafts_of(sequence).best_guess(1 + min(self.limit, _left_tokens(sequence)))
        if guess is None:
            return 0.0
        behind = guess.chances[1:]  # the first is of the token that is being sampled
        if not self.is_adaptive:
            return sum(behind)
        cost = self._costs.row(0)
        gain = sum(chance - cost for chance in behind if chance > cost)
        if not gain and behind and self._probes.is_due(guess.key[0]):
            self._due.add(guess.key[0])
            return inf
        return gain

    def _begin_look_ups(self) -> float | None:
        """The instant, if these look-ups are timed."""
        self._turns += 1
        is_timed = self.is_adaptive and self._turns % _TIMED_TURNS == 1
        return self._clock.now_s() if is_timed else None

    def _note_look_ups(self, began_s: float, sequences: int) -> None:
        """Learn what look-ups of so many sequences cost."""
        if sequences:
            self._costs.note_lookups(sequences, self._clock.now_s() - began_s)
            self._rests.note_cost(self._costs.lookup)

    def _gain(self, lookup: Lookup | None) -> float:
        """Steps that a draft from a text is expected to save, less its cost; 0 for a probe."""
        if lookup is None or lookup.chances[:1] == [inf]:
            return 0.0
        cost = self._costs.row(0) if self.is_adaptive else 0.0
        return sum(lookup.chances) - cost * len(lookup.chances)


def _left_tokens(sequence: Sequence) -> int:
    """Most tokens of a draft: one more is drawn behind it."""
    return sequence.max_output_tokens - sequence.output_tokens - 1


def _count_allowed(sequence: Sequence, token_ids: list[int]) -> int:
    grammar = sequence.grammar
    return len(token_ids) if grammar is None else grammar.count_accepted(token_ids)

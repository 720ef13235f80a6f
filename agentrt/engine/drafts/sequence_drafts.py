"""Drafts of one sequence: the texts that it seems to repeat, followed while they agree with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from agentrt.engine.drafts.acceptance import SEQUENCE_MEMORY, AcceptanceRates, RateKey
from agentrt.engine.drafts.ngrams import TextLookup, Trail, continuation
from agentrt.engine.drafts.site_outputs import SiteOutputs
from agentrt.engine.sequence.sequence import Sequence
from agentrt.protocol.step_output import DraftSource

_SURE_TOKENS = 4
"""Tokens that a text must have agreed with before it counts as repeated, not just alike."""


ALL_TEXTS: tuple[DraftSource, ...] = ("site", "sibling", "prompt")
"""Sources that are texts; of equally likely guesses the first counts."""


class Guess(NamedTuple):
    """Tokens that may follow a sequence.

    Attributes:
        token_ids: At least one, unless nothing is guessed.
        key: Source, and how sure it is.
        chances: Probabilities that the first of them is accepted, the first two, and so on; those
            that are hardly possible are left out.
    """

    token_ids: list[int]
    key: RateKey
    chances: list[float]

    @property
    def expected_tokens(self) -> float:
        """Tokens that are expected to be accepted."""
        return sum(self.chances)


class SequenceDrafts:
    """Guesses of what follows a sequence.

    Args:
        sequence: A sequence with a complete prompt.
        outputs: Outputs of its call site.
        sources: Sources that are looked up.

    Attributes:
        sequence: The sequence.
        rates: Acceptance rates of its drafts; they lean on those of its call site.
        model_rates: Acceptance rates of the draft model.
    """

    def __init__(
        self,
        sequence: Sequence,
        outputs: SiteOutputs,
        sources: tuple[DraftSource, ...] = ALL_TEXTS,
    ) -> None:
        self.sequence = sequence
        self._sources = sources
        self._outputs = outputs
        self._own_output = outputs.open()
        self._own_text = TextLookup()
        self._known_tokens = 0
        self._trails: dict[DraftSource, Trail | None] = {}
        self._noted: DraftSource | None = None
        self.rates = self.model_rates = AcceptanceRates(SEQUENCE_MEMORY, outputs.rates)

    def best_guess(self, limit: int) -> Guess | None:
        """The likeliest tokens to follow, at most `limit`; None if nothing is known."""
        self._update()
        if not any(self._trails.values()):
            return None
        return max(self._guesses(limit), key=lambda guess: guess.expected_tokens, default=None)

    def note(self, key: RateKey, accepted_tokens: int, *, is_whole: bool) -> None:
        """Learn from a draft that was verified."""
        self._noted = key[0]
        self.rates.note(key, accepted_tokens, is_whole=is_whole)
        if key[0] not in ALL_TEXTS and self.model_rates is not self.rates:
            self.model_rates.note(key, accepted_tokens, is_whole=is_whole)

    def try_model(self) -> None:
        """Forget what is known of the draft model at the call site."""
        self.model_rates = AcceptanceRates(SEQUENCE_MEMORY)

    def close(self) -> None:
        """Keep the output for later ones of the call site."""
        self._update()
        self._outputs.close(self._own_output)

    def _guesses(self, limit: int) -> Iterator[Guess]:
        for source, trail in self._trails.items():
            if trail is None:
                continue
            if source == "prompt":
                token_ids = continuation(trail.text, trail.at, limit)
            else:
                token_ids = trail.text[trail.at : trail.at + limit]
            if token_ids:
                key: RateKey = source, trail.agreed_tokens >= _SURE_TOKENS
                yield Guess(token_ids, key, self.rates.chances(key, len(token_ids)))

    def _update(self) -> None:
        """Follow the tokens that are new, and look up those texts that they left."""
        tokens = self.sequence.tokens
        if self._trails and len(tokens) == self._known_tokens:
            return
        new = tokens[self._known_tokens :]
        self._own_text.extend(new)
        output = tokens[max(self._known_tokens, self.sequence.prompt_tokens) :]
        self._outputs.extend(self._own_output, output)
        self._known_tokens = len(tokens)
        own = self._own_output
        for source in self._sources:
            trail = self._trails.get(source)
            if trail is not None:
                if source != self._noted:
                    self._observe(source, trail, new)
                if trail.follow(new):
                    continue
            if source == "prompt":
                at = self._own_text.find()
                self._trails[source] = None if at is None else Trail(tokens, at)
                continue
            find = self._outputs.find_ended if source == "site" else self._outputs.find_open
            found = find(own)
            if found is None and trail is not None and output and trail.realign(output[-1]):
                found = trail
            self._trails[source] = found
        self._noted = None

    def _observe(self, source: DraftSource, trail: Trail, new: list[int]) -> None:
        """Learn how far a text would have been right of which nothing was drafted."""
        guessed = trail.text[trail.at : trail.at + len(new)]
        if guessed:
            pairs = zip(guessed, new, strict=False)
            right = next((at for at, (one, other) in enumerate(pairs) if one != other), None)
            is_whole = right is None
            accepted = len(guessed) if right is None else right
            key: RateKey = source, trail.agreed_tokens >= _SURE_TOKENS
            self.rates.note(key, accepted, is_whole=is_whole)

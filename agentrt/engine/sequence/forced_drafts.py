"""Drafts of forced text: guesses the tokens of bytes that a grammar forces (for jump-forward).

Forced bytes are not forced tokens: `":` may be tokenized as part of `":-`. If such bytes are all
that is left of a forced run, the tokens that spell them are computed together with the token
before, as a draft. Each one that is then sampled as guessed saves a step. A wrong guess costs a row
of one forward; it never changes the output.

How often each text is spelled as it was the last time is learned, and a draft ends where it is
likely to be wrong. Where words follow each other, a blank is forced before each of them, and what
comes with it differs: a draft of eight such words would be wrong in every step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agentrt.structured import ConstraintState

MAX_DRAFT_TOKENS = 8
"""Tokens of one draft."""

LEAST_CHANCE = 0.15
"""A guess that is right less often costs as much as it saves: on a CPU a row takes 0.05 to 0.15 of
the time of a step."""

_MAX_KNOWN_TEXTS = 512
_FIRST_RATE = 0.5
_LEARNING_RATE = 0.25


@dataclass(slots=True)
class ForcedSpelling:
    """Tokens of a forced text.

    Attributes:
        token_ids: As the model sampled them last, or as the tokenizer writes the text.
        rate: Share of the times, later ones count more, at which it was spelled as it was before.
    """

    token_ids: list[int]
    rate: float = _FIRST_RATE

    def note(self, *, is_same: bool) -> None:
        """Note whether it was spelled in the same way again."""
        self.rate += _LEARNING_RATE * (is_same - self.rate)


class TokenGuesser:
    """Guesses the tokens of a constraint's forced bytes.

    Args:
        tokenize: Tokenizes text as the model's own tokenizer does.
        bytes_of: Gives the text of tokens; None if they have none.
    """

    def __init__(
        self, tokenize: Callable[[bytes], list[int]], bytes_of: Callable[[list[int]], bytes | None]
    ) -> None:
        self._tokenize = tokenize
        self._bytes_of = bytes_of
        self._spellings: dict[bytes, ForcedSpelling] = {}

    def guess(self, state: ConstraintState, text: bytes, limit: int) -> list[int]:
        """The tokens that come next, at most `limit`.

        Args:
            state: Grammar state to start from; it does not advance.
            text: Forced text at that state.
            limit: Most tokens.
        """
        guessed: list[int] = []
        here, chance = state, 1.0
        while text and len(guessed) < limit:
            spelling = self._spelling(text)
            chance *= spelling.rate
            if chance < LEAST_CHANCE:
                break
            tokens = spelling.token_ids
            beyond = len(self._bytes_of(tokens) or b"") - len(text)
            if beyond <= 0:  # nothing more was forced
                guessed += tokens
                break
            here = state.fork() if here is state else here
            if here.advance(tokens) != len(tokens):
                break
            more = here.forced_tokens(limit)
            here.advance(more)
            guessed += [*tokens, *more]
            text = here.forced_text()
        return guessed[:limit]

    def learn(self, text: bytes, token_id: int) -> None:
        """Remember the token that the model sampled where `text` was forced; it may come again."""
        spelling = self._spelling(text)
        is_same = spelling.token_ids[:1] == [token_id]  # of some bytes a tokenizer makes nothing
        spelling.note(is_same=is_same)
        if not is_same and (self._bytes_of([token_id]) or b"").startswith(text):
            spelling.token_ids = [token_id]

    def _spelling(self, text: bytes) -> ForcedSpelling:
        """How a text is spelled, as the tokenizer does if the model has not shown it."""
        known = self._spellings.get(text)
        if known is None:
            if len(self._spellings) >= _MAX_KNOWN_TEXTS:
                self._spellings.clear()
            known = self._spellings[text] = ForcedSpelling(self._tokenize(text))
        return known

"""Drafts of forced text: guesses the tokens of bytes that a grammar forces (for jump-forward).

Forced bytes are not forced tokens: `":` may be tokenized as part of `":-`. If such bytes are all
that is left of a forced run, the tokens that spell them are computed together with the token
before, as a draft. Each one that is then sampled as guessed saves a step. A wrong guess costs a row
of one forward; it never changes the output.
"""

from __future__ import annotations

from collections.abc import Callable

from agentrt.structured import ConstraintState

MAX_DRAFT_TOKENS = 8
"""Tokens of one draft."""

_MAX_KNOWN_TEXTS = 512


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
        self._known_tokens: dict[bytes, list[int]] = {}

    def guess(self, state: ConstraintState, text: bytes, limit: int) -> list[int]:
        """The tokens that come next, at most `limit`.

        Args:
            state: Grammar state to start from; it does not advance.
            text: Forced text at that state.
            limit: Most tokens.
        """
        guessed: list[int] = []
        here = state
        while text and len(guessed) < limit:
            tokens = self._known_tokens.get(text) or self._tokenized(text)
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
        spelled = self._bytes_of([token_id])
        if spelled is not None and spelled.startswith(text):
            self._remember(text, [token_id])
        else:
            self._known_tokens.pop(text, None)

    def _tokenized(self, text: bytes) -> list[int]:
        return self._remember(text, self._tokenize(text))

    def _remember(self, text: bytes, token_ids: list[int]) -> list[int]:
        if len(self._known_tokens) >= _MAX_KNOWN_TEXTS:
            self._known_tokens.clear()
        self._known_tokens[text] = token_ids
        return token_ids

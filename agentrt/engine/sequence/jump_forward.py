"""What a sequence will say next, guessed where its grammar leaves no choice of text.

Bytes that must come are not tokens that must come: `":` may be spelled as part of `":-`. So where
such bytes are all that is left of a forced run, the tokens that spell them are computed together
with the token before, and each that is then drawn as it was guessed spares a step of its own. A
wrong guess costs a row of one forward; it never leads to another token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from agentrt.structured import ConstraintState

MOST_DRAFTED = 8
"""Tokens of one guess."""

_TEXTS_KEPT = 512


@dataclass(frozen=True, slots=True)
class DraftedTokens:
    """Guessed tokens that a forward has computed behind the last known token of a sequence.

    Attributes:
        token_ids: They.
        logits: `[tokens, logits_size]` fp32, behind each of them.
    """

    token_ids: list[int]
    logits: Tensor

    def right(self, token_ids: Sequence[int]) -> int:
        """How many of them are the first of `token_ids`."""
        count = 0
        for mine, said in zip(self.token_ids, token_ids, strict=False):
            if mine != said:
                break
            count += 1
        return count


class TokenGuesser:
    """Guesses how the forced bytes of one constraint will be spelled.

    Args:
        spell: As the model's own tokenizer does.
        bytes_of: The text of tokens; None where they have none.
    """

    def __init__(
        self, spell: Callable[[bytes], list[int]], bytes_of: Callable[[list[int]], bytes | None]
    ) -> None:
        self._spell = spell
        self._bytes_of = bytes_of
        self._said: dict[bytes, list[int]] = {}

    def guess(self, state: ConstraintState, text: bytes, limit: int) -> list[int]:
        """The tokens that come next, at most `limit`.

        Args:
            state: From where; it stays there.
            text: Its forced text.
            limit: Most tokens.
        """
        run: list[int] = []
        here = state
        while text and len(run) < limit:
            said = self._said.get(text) or self._spelled(text)
            beyond = len(self._bytes_of(said) or b"") - len(text)
            if beyond <= 0:  # no more than this was forced
                run += said
                break
            here = state.fork() if here is state else here
            if here.advance(said) != len(said):
                break
            more = here.forced_tokens(limit)
            here.advance(more)
            run += [*said, *more]
            text = here.forced_text()
        return run[:limit]

    def note(self, text: bytes, token_id: int) -> None:
        """Where `text` was forced the model has said this: it may say so again."""
        spelled = self._bytes_of([token_id])
        if spelled is not None and spelled.startswith(text):
            self._keep(text, [token_id])
        else:
            self._said.pop(text, None)

    def _spelled(self, text: bytes) -> list[int]:
        return self._keep(text, self._spell(text))

    def _keep(self, text: bytes, token_ids: list[int]) -> list[int]:
        if len(self._said) >= _TEXTS_KEPT:
            self._said.clear()
        self._said[text] = token_ids
        return token_ids

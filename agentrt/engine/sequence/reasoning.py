"""A guide for a sequence that thinks first: its thought, then what guides its answer."""

from __future__ import annotations

from collections.abc import Callable

from agentrt.engine.sequence.grammar_state import REDRAWS, GrammarState, StateLock
from agentrt.protocol.backend import OnLimit
from agentrt.structured import CompiledConstraint
from agentrt.structured.matcher import Masking
from agentrt.structured.reasoning import Thinking

Begin = Callable[[int], GrammarState | None]
"""The guide of the answer behind so many tokens of thought; None where the answer is free."""


class ReasoningState:
    """Walks through a thought, then hands over; used like a `GrammarState`.

    Args:
        thinking: The thought; short enough for an answer to fit behind it.
        begin: Makes the guide of the answer.
        compiled: The answer's constraint; None leaves it free.
        on_limit: As of a guide.
        jumps: Whether forced tokens are written without asking the model.

    Raises:
        ConstraintError: No answer would fit.
    """

    __slots__ = (
        "_answer",
        "_apart",
        "_begin",
        "_compiled",
        "_is_slow",
        "_jumps",
        "_on_limit",
        "thinking",
    )

    def __init__(
        self,
        thinking: Thinking,
        begin: Begin,
        compiled: CompiledConstraint | None,
        on_limit: OnLimit,
        *,
        jumps: bool = True,
    ) -> None:
        self.thinking = thinking
        self._begin = begin
        self._compiled = compiled
        self._on_limit = on_limit
        self._jumps = jumps
        self._apart: StateLock | None = None
        self._is_slow = False
        self._answer: GrammarState | None = None
        self._hand_over()

    @property
    def is_slow(self) -> bool:
        """As of a guide."""
        return self._is_slow if self._answer is None else self._answer.is_slow

    @is_slow.setter
    def is_slow(self, is_slow: bool) -> None:
        if self._answer is None:
            self._is_slow = is_slow
        else:
            self._answer.is_slow = is_slow

    @property
    def apart(self) -> StateLock | None:
        """As of a guide."""
        return self._apart if self._answer is None else self._answer.apart

    @apart.setter
    def apart(self, apart: StateLock | None) -> None:
        if self._answer is None:
            self._apart = apart
        else:
            self._answer.apart = apart

    @property
    def masked_by(self) -> Masking:
        """Whose mask says which tokens may come next."""
        return self.thinking if self._answer is None else self._answer.masked_by

    def take(self, token_id: int) -> bool:
        """Take a token that the mask allowed; False when another one is needed."""
        if not self.thinking.ended:
            taken = self.thinking.accept_token(token_id)
            self._hand_over()
            return taken
        return self._answer is None or self._answer.take(token_id)

    @property
    def redraws(self) -> int:
        """How often to draw again when a token is refused."""
        if not self.thinking.ended:
            return REDRAWS
        return 0 if self._answer is None else self._answer.redraws

    def fallback(self) -> int:
        """The token to take when others were refused."""
        if self._answer is not None:
            return self._answer.fallback()
        self.thinking.force_end()
        return self.thinking.shortest[0]

    def forced(self, limit: int) -> list[int]:
        """Tokens that must come next, at most `limit`; they are taken."""
        taken: list[int] = []
        if self._jumps and not self.thinking.ended:
            taken = self.thinking.forced_tokens(limit)
            self._hand_over()
        if self._answer is not None and len(taken) < limit:
            taken += self._answer.forced(limit - len(taken))
        return taken

    def draft(self, limit: int) -> list[int]:
        """How what must come next will be spelled, guessed; at most `limit` tokens."""
        return [] if self._answer is None else self._answer.draft(limit)

    @property
    def must_stop(self) -> bool:
        """Whether the output is whole and nothing may follow."""
        return self._answer is not None and self._answer.must_stop

    @property
    def is_whole(self) -> bool:
        """Whether the output may end here."""
        if not self.thinking.ended:
            return False
        return self._answer is None or self._answer.is_whole

    @property
    def closes(self) -> bool:
        """Whether a way to a whole text is held."""
        if self._answer is not None:
            return self._answer.closes
        known = self._compiled is None or self._compiled.shortest is not None
        return known and self._on_limit == "close"

    @property
    def has_no_choice(self) -> bool:
        """Whether nothing but the way out fits what is left."""
        return self._answer is not None and self._answer.has_no_choice

    def free(self) -> None:
        """Wait until nobody else has the state."""
        if self._answer is not None:
            self._answer.free()
        elif self._apart is not None:
            self._apart.wait()
            self._apart = None

    def close(self) -> list[int]:
        """The tokens of the way out; they are taken."""
        way_out: list[int] = []
        if not self.thinking.ended:
            way_out = self.thinking.shortest
            for token in way_out:
                self.thinking.accept_token(token)
            self._hand_over()
        return way_out + (self._answer.close() if self._answer is not None else [])

    def _hand_over(self) -> None:
        if self.thinking.ended and self._answer is None:
            self._answer = self._begin(self.thinking.tokens)

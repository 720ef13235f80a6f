"""A sequence's constraint inside the loop: masks, forced tokens, and an end within the budget."""

from __future__ import annotations

from typing import Protocol

from agentrt.base.errors import InternalError
from agentrt.engine.sequence.jump_forward import MOST_DRAFTED, TokenGuesser
from agentrt.protocol.backend import OnLimit
from agentrt.structured import CompiledConstraint, ConstraintState
from agentrt.structured.closing.budget import Budgeted

REDRAWS = 4
"""How often a token that leaves no room to close is drawn again before the way out is taken."""


class StateLock(Protocol):
    """Something that has the state of a constraint to itself."""

    def wait(self) -> None:
        """Until it is free again."""
        ...


class GrammarState:
    """Walks a constraint with one sequence.

    Args:
        compiled: The constraint.
        most_tokens: The output gets, its end token not counted.
        on_limit: "close" keeps a way to a whole text within `most_tokens`.
        is_slow: Whether its masks are expected to be.
        jumps: Whether forced tokens are written without asking the model.
        speller: Guesses how forced bytes will be spelled; None guesses nothing.

    Attributes:
        is_slow: Its masks are filled apart from those of other rows.
        apart: One that is being filled so, or None.

    Raises:
        ConstraintError: No whole text fits into `most_tokens`.
    """

    __slots__ = ("_budget", "_jumps", "_must_spell", "_speller", "_state", "apart", "is_slow")

    def __init__(
        self,
        compiled: CompiledConstraint,
        most_tokens: int,
        on_limit: OnLimit,
        *,
        is_slow: bool = False,
        jumps: bool = True,
        speller: TokenGuesser | None = None,
    ) -> None:
        self._jumps = jumps
        self._speller = speller
        self._must_spell = b""
        self.is_slow = is_slow
        self.apart: StateLock | None = None
        self._budget: Budgeted | None = None
        if on_limit == "close":
            self._budget = Budgeted.start(compiled, most_tokens)
            self._state: ConstraintState = self._budget
        else:
            self._state = compiled.start()

    @property
    def masked_by(self) -> ConstraintState:
        """Whose mask says which tokens may come next."""
        budget = self._budget
        if budget is not None and budget.tight and len(budget.witness or ()) == 1:
            return budget.state  # one is left: any that makes the text whole will do
        return self._state

    def take(self, token_id: int) -> bool:
        """Take a token that the mask allowed; False when it would leave no room to close."""
        if self._state.advance([token_id]):
            if self._must_spell and self._speller is not None:
                self._speller.note(self._must_spell, token_id)
                self._must_spell = b""
            return True
        if self._budget is None:
            raise InternalError(f"the grammar refuses token {token_id}, which its mask allowed")
        return False

    @property
    def redraws(self) -> int:
        """How often to draw again when a token is refused."""
        return REDRAWS if self._budget is not None else 0

    def fallback(self) -> int:
        """The token to take when others were refused."""
        if self._budget is None:
            raise InternalError("only a constraint that closes refuses tokens")
        return self._budget.fallback()

    def forced(self, limit: int) -> list[int]:
        """Tokens that must come next, at most `limit`; they are taken."""
        tokens = self._state.forced_tokens(limit) if self._jumps and limit > 0 else []
        return tokens[: self._state.advance(tokens)] if tokens else []

    def draft(self, limit: int) -> list[int]:
        """How what must come next will be spelled, guessed; at most `limit` tokens."""
        self._must_spell = b""
        if self._speller is None or limit <= 0:
            return []
        self._must_spell = self._state.forced_text()
        if not self._must_spell:
            return []
        return self._speller.guess(self._state, self._must_spell, min(limit, MOST_DRAFTED))

    @property
    def must_stop(self) -> bool:
        """Whether the output is whole and nothing may follow."""
        return self._state.must_stop()

    @property
    def is_whole(self) -> bool:
        """Whether the output may end here."""
        return self._state.can_stop()

    @property
    def closes(self) -> bool:
        """Whether a way to a whole text is held."""
        return self._budget is not None and self._budget.closes

    @property
    def has_no_choice(self) -> bool:
        """Whether nothing but the way out fits what is left, so that no model needs to be asked."""
        budget = self._budget
        return budget is not None and budget.tight and len(budget.witness or ()) != 1

    def free(self) -> None:
        """Wait until nobody else has the state."""
        if self.apart is not None:
            self.apart.wait()
            self.apart = None

    def close(self) -> list[int]:
        """The tokens of the way out; they are taken."""
        witness = list(self._budget.witness or ()) if self._budget is not None else []
        if witness and self._state.advance(witness) != len(witness):
            raise InternalError("the grammar refuses the way out that was held")
        return witness

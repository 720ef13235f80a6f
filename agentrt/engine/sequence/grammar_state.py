"""Grammar state of one sequence: bitmask, forced tokens, and an end within the token budget."""

from __future__ import annotations

from collections.abc import Sequence

from agentrt.base.errors import InternalError
from agentrt.engine.sequence.forced_drafts import MAX_DRAFT_TOKENS, TokenGuesser
from agentrt.engine.sequence.mask_place import MaskPlace
from agentrt.protocol.backend import OnLimit
from agentrt.structured import CompiledConstraint, ConstraintState
from agentrt.structured.closing.budget import Budgeted, EndSearch

REDRAWS = 4
"""Samples taken again if a token leaves no room to close, before the closing tokens are used."""


class GrammarState:
    """Advances a constraint along one sequence.

    Args:
        compiled: The constraint.
        max_tokens: Output limit, not counting the end token.
        on_limit: "close" keeps a completion within `max_tokens` reachable.
        mask_place: Place in which its masks are filled; None puts them with those of other rows.
        jump_forward: Whether forced tokens are appended without a forward.
        guesser: Guesses the tokens of forced bytes; None guesses nothing.

    Attributes:
        mask_place: Place in which its masks are filled.

    Raises:
        ConstraintError: No complete text fits in `max_tokens`.
    """

    def __init__(
        self,
        compiled: CompiledConstraint,
        max_tokens: int,
        on_limit: OnLimit,
        *,
        mask_place: MaskPlace | None = None,
        jump_forward: bool = True,
        guesser: TokenGuesser | None = None,
    ) -> None:
        self._jump_forward = jump_forward
        self._guesser = guesser
        self._forced_text = b""
        self.mask_place = MaskPlace() if mask_place is None else mask_place
        self._budget: Budgeted | None = None
        if on_limit == "close":
            self._budget = Budgeted.start(compiled, max_tokens)
            self._budget.searches_later = True
            self._state: ConstraintState = self._budget
        else:
            self._state = compiled.start()

    @property
    def mask_state(self) -> ConstraintState:
        """State that fills the mask of allowed tokens."""
        budget = self._budget
        if budget is not None and budget.tight and len(budget.witness or ()) == 1:
            return budget.state  # one token is left: any that completes the text will do
        return self._state

    @property
    def masks_plainly(self) -> bool:
        """Whether the mask is that of the constraint alone, which no token budget narrows."""
        budget = self._budget
        return budget is None or not budget.narrows or self.mask_state is budget.state

    def accept_token(self, token_id: int) -> bool:
        """Accept a token that the mask allowed; False if it would leave no room to close.

        If a `search` is to be made first, the token is refused until it is done.
        """
        if self._state.advance([token_id]):
            if self._forced_text and self._guesser is not None:
                self._guesser.learn(self._forced_text, token_id)
                self._forced_text = b""
            return True
        if self._budget is None:
            raise InternalError(f"the grammar refuses token {token_id}, which its mask allowed")
        return False

    @property
    def search(self) -> EndSearch | None:
        """Search for an end behind the token that was just refused; None if that is final."""
        return None if self._budget is None else self._budget.search

    @property
    def redraws(self) -> int:
        """Times to sample again if a token is refused."""
        return REDRAWS if self._budget is not None else 0

    def fallback_token(self) -> int:
        """Token to use when the sampled ones were refused."""
        if self._budget is None:
            raise InternalError("only a constraint that closes refuses tokens")
        return self._budget.fallback()

    def forced_tokens(self, limit: int) -> list[int]:
        """Tokens that must come next, at most `limit`; the state advances over them."""
        tokens = self._state.forced_tokens(limit) if self._jump_forward and limit > 0 else []
        return tokens[: self._state.advance(tokens)] if tokens else []

    def draft_tokens(self, limit: int) -> list[int]:
        """Guessed tokens of the text that must come next, at most `limit`."""
        self._forced_text = b""
        if self._guesser is None or limit <= 0:
            return []
        self._forced_text = self._state.forced_text()
        if not self._forced_text:
            return []
        return self._guesser.guess(self._state, self._forced_text, min(limit, MAX_DRAFT_TOKENS))

    def count_accepted(self, token_ids: Sequence[int]) -> int:
        """How many of these tokens the grammar would accept in a row; the state does not change.

        0 if masks are slow: each token of a draft takes one before the step ends.
        """
        if self.mask_place.is_slow:
            return 0
        state = self._state if self._budget is None else self._budget.state
        return state.fork().advance(token_ids)

    def fork_state(self) -> ConstraintState:
        """A copy of the state, for masks of tokens that are guessed ahead."""
        return (self._state if self._budget is None else self._budget.state).fork()

    @property
    def must_stop(self) -> bool:
        """Whether the output is complete and nothing may follow."""
        return self._state.must_stop()

    @property
    def can_stop(self) -> bool:
        """Whether the output may end here."""
        return self._state.can_stop()

    @property
    def can_close(self) -> bool:
        """Whether a completion is held."""
        return self._budget is not None and self._budget.closes

    @property
    def must_close(self) -> bool:
        """Whether only the held completion fits in the tokens left; then no forward is needed."""
        budget = self._budget
        return budget is not None and budget.tight and len(budget.witness or ()) != 1

    def close(self) -> list[int]:
        """Tokens of the shortest completion; the state advances over them."""
        witness = list(self._budget.witness or ()) if self._budget is not None else []
        if witness and self._state.advance(witness) != len(witness):
            raise InternalError("the grammar refuses the completion that was held")
        return witness

"""Grammar state of a sequence that reasons first: a thinking budget, then the answer's grammar."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentrt.engine.sequence.grammar_state import REDRAWS, GrammarState
from agentrt.engine.sequence.mask_place import MaskPlace
from agentrt.protocol.backend import OnLimit
from agentrt.structured import CompiledConstraint, ConstraintState
from agentrt.structured.closing.budget import EndSearch
from agentrt.structured.matcher import Masking
from agentrt.structured.reasoning import Thinking

AnswerGrammar = Callable[[int], GrammarState | None]
"""Makes the answer's grammar state, given the tokens of the reasoning; None for a free answer."""


class ReasoningState:
    """Advances through the reasoning, then the answer; used like a `GrammarState`.

    Args:
        thinking: State of the reasoning; short enough for an answer to fit behind it.
        answer_grammar: Makes the grammar state of the answer.
        compiled: Constraint of the answer; None leaves it free.
        on_limit: Same as for `GrammarState`.
        jump_forward: Whether forced tokens are appended without a forward.

    Attributes:
        thinking: State of the reasoning.

    Raises:
        ConstraintError: No answer would fit.
    """

    def __init__(
        self,
        thinking: Thinking,
        answer_grammar: AnswerGrammar,
        compiled: CompiledConstraint | None,
        on_limit: OnLimit,
        *,
        jump_forward: bool = True,
    ) -> None:
        self.thinking = thinking
        self._answer_grammar = answer_grammar
        self._compiled = compiled
        self._on_limit = on_limit
        self._jump_forward = jump_forward
        self._thinking_place = MaskPlace()
        self._answer: GrammarState | None = None
        self._start_answer()

    @property
    def mask_state(self) -> Masking:
        """State that fills the mask of allowed tokens."""
        return self.thinking if self._answer is None else self._answer.mask_state

    @property
    def masks_plainly(self) -> bool:
        """Whether the mask is that of the answer's constraint alone; not while it reasons."""
        return self._answer is not None and self._answer.masks_plainly

    @property
    def mask_place(self) -> MaskPlace:
        """Place in which its masks are filled."""
        return self._thinking_place if self._answer is None else self._answer.mask_place

    def accept_token(self, token_id: int) -> bool:
        """Accept a token that the mask allowed; False if another one is needed."""
        if not self.thinking.ended:
            accepted = self.thinking.accept_token(token_id)
            self._start_answer()
            return accepted
        return self._answer is None or self._answer.accept_token(token_id)

    @property
    def search(self) -> EndSearch | None:
        """Search for an end behind the token that was just refused; None if that is final."""
        return None if self._answer is None else self._answer.search

    @property
    def redraws(self) -> int:
        """Times to sample again if a token is refused."""
        if not self.thinking.ended:
            return REDRAWS
        return 0 if self._answer is None else self._answer.redraws

    def fallback_token(self) -> int:
        """Token to use when the sampled ones were refused."""
        if self._answer is not None:
            return self._answer.fallback_token()
        self.thinking.force_end()
        return self.thinking.shortest[0]

    def forced_tokens(self, limit: int) -> list[int]:
        """Tokens that must come next, at most `limit`; the state advances over them."""
        tokens: list[int] = []
        if self._jump_forward and not self.thinking.ended:
            tokens = self.thinking.forced_tokens(limit)
            self._start_answer()
        if self._answer is not None and len(tokens) < limit:
            tokens += self._answer.forced_tokens(limit - len(tokens))
        return tokens

    def draft_tokens(self, limit: int) -> list[int]:
        """Guessed tokens of the text that must come next, at most `limit`."""
        return [] if self._answer is None else self._answer.draft_tokens(limit)

    def count_accepted(self, token_ids: Sequence[int]) -> int:
        """How many of these tokens may follow in a row; text of the reasoning is free."""
        return len(token_ids) if self._answer is None else self._answer.count_accepted(token_ids)

    def fork_state(self) -> ConstraintState | None:
        """A copy of the answer's state, for tokens guessed ahead; None if they are free."""
        return None if self._answer is None else self._answer.fork_state()

    @property
    def must_stop(self) -> bool:
        """Whether the output is complete and nothing may follow."""
        return self._answer is not None and self._answer.must_stop

    @property
    def can_stop(self) -> bool:
        """Whether the output may end here."""
        if not self.thinking.ended:
            return False
        return self._answer is None or self._answer.can_stop

    @property
    def can_close(self) -> bool:
        """Whether a completion is held."""
        if self._answer is not None:
            return self._answer.can_close
        known = self._compiled is None or self._compiled.shortest is not None
        return known and self._on_limit == "close"

    @property
    def must_close(self) -> bool:
        """Whether only the held completion fits in the remaining tokens."""
        return self._answer is not None and self._answer.must_close

    def close(self) -> list[int]:
        """Tokens of the shortest completion; the state advances over them."""
        closing_tokens: list[int] = []
        if not self.thinking.ended:
            closing_tokens = self.thinking.shortest
            for token in closing_tokens:
                self.thinking.accept_token(token)
            self._start_answer()
        return closing_tokens + (self._answer.close() if self._answer is not None else [])

    def _start_answer(self) -> None:
        if self.thinking.ended and self._answer is None:
            self._answer = self._answer_grammar(self.thinking.tokens)

"""Drafts: guessed next tokens of a sequence, computed along and kept as far as they are drawn.

A draft token is accepted if the token drawn at its place equals it. The draw is that of a step of
its own: it depends on the seed, the position and the tokens before. So a draft changes no token.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentrt.engine.sequence.sequence import Sequence
from agentrt.protocol.step_output import DraftSource


@dataclass(frozen=True, slots=True)
class Draft:
    """Guessed next tokens of a sequence.

    Attributes:
        token_ids: At least one.
        forced_tokens: How many of the first spell bytes that the grammar forces.
        source: Source of the others.
    """

    token_ids: list[int]
    forced_tokens: int = 0
    source: DraftSource = "grammar"

    def source_of(self, at: int) -> DraftSource:
        """Source of the token at an index."""
        return "grammar" if at < self.forced_tokens else self.source


@dataclass(slots=True, eq=False)
class Verification:
    """A draft that a forward has computed behind the known tokens of a sequence.

    Attributes:
        sequence: The sequence.
        draft: The tokens to verify.
        known_tokens: Tokens of the sequence before the draft.
        matching_tokens: Tokens of the draft that the sequence has now.
        first_row: Row of the logits behind the last known token; those behind the draft follow.
        drawn_tokens: First tokens of the draft behind which a token was drawn along with the step.
    """

    sequence: Sequence
    draft: Draft
    known_tokens: int
    matching_tokens: int = 0
    first_row: int = 0
    drawn_tokens: int = 0

    @property
    def row(self) -> int:
        """Row of the logits behind the tokens that match so far."""
        return self.first_row + self.matching_tokens

    @property
    def is_drawn(self) -> bool:
        """Whether the token behind those that match was drawn along with the step, as it is now."""
        grammar = self.sequence.grammar
        if self.matching_tokens > self.drawn_tokens:
            return False
        return grammar is None or grammar.masks_plainly

    def count_matching(self) -> int:
        """Number of the draft's first tokens that the sequence has."""
        sampled = self.sequence.tokens[self.known_tokens :]
        count = 0
        for drafted, token_id in zip(self.draft.token_ids, sampled, strict=False):
            if drafted != token_id:
                break
            count += 1
        return count

    def accept(self) -> bool:
        """Accept the tokens that have become known; True if the next one is to be drawn.

        The first of them was drawn, further ones are forced by the grammar behind it.
        """
        sequence, before, count = self.sequence, self.matching_tokens, self.count_matching()
        if count == before:  # the draft is wrong here, or the output has ended
            return False
        source = self.draft.source_of(before)
        metrics = sequence.metrics
        metrics.accepted_tokens[source] = metrics.accepted_tokens.get(source, 0) + 1
        if source == "grammar":
            sequence.new_output.forced_tokens += 1
            metrics.forced_tokens += 1
        self.matching_tokens = count
        sequence.computed_tokens = self.known_tokens + count
        sequence.reached_tokens = max(sequence.reached_tokens, sequence.computed_tokens)
        return sequence.computed_tokens == len(sequence.tokens)

    def count_rejected(self) -> None:
        """Count the tokens that were computed in vain, at the end of the verification."""
        rejected = self.sequence.metrics.rejected_tokens
        for at in range(len(self.draft.token_ids)):
            source = self.draft.source_of(at)
            rejected[source] = rejected.get(source, 0) + (at >= self.matching_tokens)

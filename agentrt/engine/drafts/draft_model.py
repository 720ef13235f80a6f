"""The contract of a draft model: a small model that guesses the next tokens of sequences."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Rows
from dataclasses import dataclass
from typing import Protocol

from agentrt.base.ids import PageId
from agentrt.engine.sequence.sequence import Sequence
from agentrt.protocol.step_output import DraftSource


@dataclass(frozen=True, slots=True)
class DraftOrder:
    """A draft that is wanted of the model.

    Attributes:
        tokens: Most tokens of the whole draft; the sequence has pages for them.
        given: First tokens of the draft, which are known: those that a grammar forces.
    """

    tokens: int
    given: list[int]


class DraftModel(Protocol):
    """A model with the vocabulary of the target, and with KV pages of the same numbers.

    Attributes:
        source: Source of its drafts.
        window_tokens: Longest text that it can continue; 0 if there is no limit.
        forward_s: Smoothed seconds of a forward of one token a sequence; 0 before the first.
        drafting_s: Seconds that the last call of `draft` took.
    """

    source: DraftSource
    window_tokens: int
    forward_s: float
    drafting_s: float

    def clear(self, pages: list[PageId]) -> None:
        """Forget the KV of pages that have just been allocated."""
        ...

    def roll_back(self, sequence: Sequence) -> None:
        """Forget the KV behind the tokens that the target has computed of a sequence."""
        ...

    def draft(
        self, orders: Mapping[Sequence, DraftOrder], prefills: Rows[tuple[Sequence, int]]
    ) -> dict[Sequence, list[int]]:
        """Draft tokens, and compute prompts along.

        A sequence of which too much is still to be computed gets a chunk instead of a draft.

        Args:
            orders: Drafts that are wanted, by sequence.
            prefills: Sequences in the middle of their prompt, each with the number of its tokens
                that the target computes in this step.

        Returns:
            Drafts of at least one token more than was given.
        """
        ...

"""What one sequence brings to a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class SequenceSlice:
    """What one sequence brings to a batch.

    Attributes:
        slot: Row of its block table.
        token_ids: Tokens to compute; -1 - s stands for what slot `s` drew last.
        position: Of the first of them.
        wants_logits: Whether the logits after the last token are wanted.
        drafted: How many of the tokens are guesses, the last ones; logits are then wanted after
            the last that is known, and after each guess.
    """

    slot: int
    token_ids: Sequence[int]
    position: int
    wants_logits: bool
    drafted: int = 0


def wanted_rows(parts: Sequence[SequenceSlice]) -> list[int]:
    """Rows of the packed `parts` whose logits are wanted, those after guesses among them."""
    rows: list[int] = []
    end = 0
    for part in parts:
        end += len(part.token_ids)
        if part.wants_logits:
            rows += range(end - 1 - part.drafted, end)
    return rows

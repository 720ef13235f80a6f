"""Patterns: what programs do next, learned from past runs: their tool calls and their prompts."""

from __future__ import annotations

from collections.abc import Sequence

from agentrt.scheduler.estimates.call_patterns import CallPatterns
from agentrt.scheduler.estimates.prompt_patterns import PromptPatterns
from agentrt.scheduler.estimates.row import CALLS, PROMPTS, EstimateRow

QUANTITIES = (CALLS, PROMPTS)
"""Quantities of the rows of patterns."""


class Patterns:
    """Call patterns and prompt patterns, which go on learning.

    Args:
        rows: Stored rows; those of other quantities are left out.

    Raises:
        ValueError: A row is malformed.

    Attributes:
        calls: Which tools are called next.
        prompts: Which prompts are written next.
    """

    def __init__(self, rows: Sequence[EstimateRow] = ()) -> None:
        self.calls = CallPatterns(row for row in rows if row.quantity == CALLS)
        self.prompts = PromptPatterns(row for row in rows if row.quantity == PROMPTS)

    def changed_rows(self) -> list[EstimateRow]:
        """Storable part of what has learned since the last call."""
        return [*self.calls.changed_rows(), *self.prompts.changed_rows()]

"""What is measured: rows of a sweep, and the prompts of a round, from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from agentrt.analysis.model_shape import ModelShape
from agentrt.base.errors import UsageError
from agentrt.lab.checkpoints.weights import FIRST_WORD_ID

PAGE_TOKENS = 16
_LEAST_RUNNING = 64


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One point of a sweep.

    Attributes:
        batch: Sequences at once.
        prompt_tokens: Of each, the shared part among them.
        new_tokens: That each produces.
        shared_tokens: First tokens of the prompt that all have in common.
        dtype: That arms compute in.
    """

    batch: int
    prompt_tokens: int
    new_tokens: int
    shared_tokens: int
    dtype: str

    @property
    def name(self) -> str:
        """For tables and messages."""
        shared = f" shared={self.shared_tokens}" if self.shared_tokens else ""
        return f"B={self.batch} prompt={self.prompt_tokens}{shared} {self.dtype}"

    @property
    def all_prompt_tokens(self) -> int:
        """Of all sequences, shared parts counted for each."""
        return self.batch * self.prompt_tokens

    @property
    def pages(self) -> int:
        """KV pages that two rounds of this row take, so that one round finds room."""
        one = -(-(self.prompt_tokens + self.new_tokens) // PAGE_TOKENS) + 1
        return 2 * self.batch * one + 64

    @property
    def running(self) -> int:
        """Sequences that an engine must be able to run at once."""
        return max(self.batch, _LEAST_RUNNING)


def rows_of(
    shape: ModelShape,
    *,
    batches: Sequence[int],
    prompts: Sequence[int],
    new_tokens: int,
    shared: Sequence[int],
    dtypes: Sequence[str],
) -> list[SweepPoint]:
    """Every combination; a shared prefix stands before the prompt's own tokens.

    Raises:
        UsageError: A row does not fit the shape.
    """
    if new_tokens < 2:
        raise UsageError(f"--new {new_tokens} leaves no decode step", hint="Give at least 2")
    found = []
    for dtype, first, prompt, batch in product(dtypes, shared, prompts, batches):
        if min(prompt, batch) < 1 or first < 0:
            raise UsageError("--batch and --prompt start at 1, --shared at 0", hint="Raise them")
        row = SweepPoint(batch, first + prompt, new_tokens, first, dtype)
        if row.prompt_tokens + new_tokens > shape.window_tokens:
            raise UsageError(
                f"{row.name} and {new_tokens} new tokens do not fit the "
                f"{shape.window_tokens} tokens of {shape.name}",
                hint="Lower --prompt, --shared or --new",
            )
        found.append(row)
    return found


def prompts_of(row: SweepPoint, vocabulary: int, round_number: int) -> list[list[int]]:
    """Token ids of a round, `[batch][prompt_tokens]`; no two rounds share a prefix."""
    generator = random.Random(f"{row.name} {round_number}")

    def words(count: int) -> list[int]:
        return generator.choices(range(FIRST_WORD_ID, vocabulary), k=count)

    prefix = words(row.shared_tokens)
    return [prefix + words(row.prompt_tokens - row.shared_tokens) for _ in range(row.batch)]

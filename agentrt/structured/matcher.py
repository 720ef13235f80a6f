"""What engines and the language know of a constraint: the compiled form and its state.

Masks are rows of int32 words, least significant bit first, 1 = allowed: `ceil(logits_size / 32)`
words a row. Ending an output is a matter of the state, not of the library beneath: the end tokens
are accepted exactly where the text so far is whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

MaskRow = NDArray[np.int32]
"""One row of a mask. [ceil(logits_size / 32)]"""

MaskRows = NDArray[np.int32]
"""A batch of masks. [rows, ceil(logits_size / 32)]"""


class Masking(Protocol):
    """What says which tokens may come next."""

    def fill_mask(self, row: MaskRow) -> bool:
        """Write them; False when everything may come (row untouched)."""
        ...


class ConstraintState(Protocol):
    """Where one sequence stands in its constraint. One thread at a time."""

    def fill_mask(self, row: MaskRow) -> bool:
        """Write the tokens that may come next; False when everything may (row untouched).

        Raises:
            ConstraintError: The grammar is too ambiguous to go on from here.
        """
        ...

    def advance(self, tokens: Sequence[int]) -> int:
        """Take tokens, end tokens among them; stops at the first refusal.

        Returns:
            How many were taken.
        """
        ...

    def rollback(self, count: int) -> None:
        """Undo the last `count` tokens."""
        ...

    def fork(self) -> ConstraintState:
        """An independent copy."""
        ...

    def forced(self, limit: int) -> list[int]:
        """Tokens that must come next whatever the model says, at most `limit`, may be none.

        Only those that no continuation could spell otherwise; never an end token.
        """
        ...

    def forced_text(self) -> bytes:
        """Bytes that must come next, however they are spelled; may stop short of where they do."""
        ...

    def completion(self, limit: int) -> list[int] | None:
        """At most `limit` tokens that lead to a whole text, verified; None when none was found.

        The end token is not among them. [] where the text is whole already.
        """
        ...

    def reaches_end(self, tokens: Sequence[int]) -> bool:
        """Whether these tokens would make the text whole. The state stays where it is."""
        ...

    def can_stop(self) -> bool:
        """Whether the text so far is whole."""
        ...

    def must_stop(self) -> bool:
        """Whether nothing but an end token may follow."""
        ...


class CompiledConstraint(Protocol):
    """A constraint ready for one vocabulary. Immutable; shared by all its sequences."""

    @property
    def backend(self) -> str:
        """The library beneath."""
        ...

    @property
    def size_bytes(self) -> int:
        """About how much memory it holds."""
        ...

    @property
    def shortest(self) -> tuple[int, ...] | None:
        """The shortest whole text that was found, without end token; None: not closable."""
        ...

    @property
    def min_tokens(self) -> int | None:
        """How many tokens `shortest` has."""
        ...

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Tokens that end the output."""
        ...

    def start(self) -> ConstraintState:
        """The state before the first token."""
        ...


def mask_words(logits_size: int) -> int:
    """Words in the row of a vocabulary as wide as the model's logits."""
    return (logits_size + 31) // 32


def allowed_ids(row: MaskRow) -> list[int]:
    """The token ids whose bits are set, ascending."""
    bits = np.unpackbits(row.view(np.uint8), bitorder="little")
    found: list[int] = np.flatnonzero(bits).tolist()
    return found


def set_only(row: MaskRow, token_ids: Sequence[int]) -> None:
    """Allow exactly these tokens."""
    words = row.view(np.uint32)
    words[:] = 0
    for token_id in token_ids:
        words[token_id >> 5] |= np.uint32(1 << (token_id & 31))

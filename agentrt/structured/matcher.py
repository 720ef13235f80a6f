"""Structured output as seen by engines and the language: a compiled constraint and its state.

Bitmasks are rows of int32 words, least significant bit first, 1 = allowed: `ceil(logits_size / 32)`
words a row. The end of an output is decided by the state, not by the library: the end tokens are
accepted exactly where the text so far is complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

MaskRow = NDArray[np.int32]
"""One row of a grammar bitmask. [ceil(logits_size / 32)]"""

MaskRows = NDArray[np.int32]
"""Grammar bitmask of a batch. [rows, ceil(logits_size / 32)]"""


class Masking(Protocol):
    """Source of the allowed next tokens."""

    def fill_bitmask(self, row: MaskRow) -> bool:
        """Write the allowed tokens; False if all are allowed (row untouched)."""


class ConstraintState(Protocol):
    """State of one sequence in its constraint (vLLM: StructuredOutputGrammar). Not thread-safe."""

    def fill_bitmask(self, row: MaskRow) -> bool:
        """Write the allowed next tokens; False if all are allowed (row untouched).

        Raises:
            ConstraintError: The grammar is too ambiguous to continue from here.
        """

    def advance(self, tokens: Sequence[int]) -> int:
        """Accept tokens, end tokens included; stops at the first refusal.

        Returns:
            Number of accepted tokens.
        """

    def rollback(self, count: int) -> None:
        """Undo the last `count` tokens."""

    def fork(self) -> ConstraintState:
        """Make an independent copy."""

    def forced_tokens(self, limit: int) -> list[int]:
        """Tokens that must come next (jump-forward), at most `limit`, possibly none.

        Only tokens without another spelling in any continuation; never an end token.
        """

    def forced_text(self) -> bytes:
        """Bytes that must come next, in any spelling; may be fewer than are determined."""

    def completion(self, limit: int) -> list[int] | None:
        """At most `limit` tokens that complete the text, verified; None if none were found.

        The end token is not included. [] if the text is complete already.
        """

    def reaches_end(self, tokens: Sequence[int]) -> bool:
        """Whether these tokens would complete the text. The state does not change."""

    def can_stop(self) -> bool:
        """Whether the text so far is complete."""

    def must_stop(self) -> bool:
        """Whether only an end token is allowed."""


class CompiledConstraint(Protocol):
    """A constraint compiled for one vocabulary, shared by all its sequences.

    Only `shortest` and `least_tokens` may improve.
    """

    @property
    def backend(self) -> str:
        """Name of the library."""

    @property
    def size_bytes(self) -> int:
        """Approximate memory of the constraint."""

    @property
    def shortest(self) -> tuple[int, ...] | None:
        """The shortest complete text found, without end token; None: not closable."""

    @property
    def min_tokens(self) -> int | None:
        """Number of tokens in `shortest`."""

    @property
    def least_tokens(self) -> int:
        """A number of tokens that no output falls below; equal to `min_tokens` if that is proved.

        It covers every spelling that the grammar accepts; a mask may hold fewer of them.
        """

    @property
    def why_open(self) -> str:
        """Reason why `shortest` is None; "" if it is not."""

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Tokens that end the output."""

    def start(self) -> ConstraintState:
        """The state before the first token."""


def bitmask_words(logits_size: int) -> int:
    """Words in a bitmask row, for a vocabulary as wide as the model's logits."""
    return (logits_size + 31) // 32


def row_of(token_ids: Sequence[int] | NDArray[np.int32], logits_size: int) -> MaskRow:
    """The bitmask row that allows exactly these tokens.

    Returns:
        [ceil(logits_size / 32)]
    """
    bits = np.zeros(bitmask_words(logits_size) * 32, dtype=np.uint8)
    bits[token_ids] = 1
    row: MaskRow = np.packbits(bits, bitorder="little").view(np.int32)
    return row


def allowed_ids(row: MaskRow) -> list[int]:
    """Token ids with a set bit, ascending."""
    bits = np.unpackbits(row.view(np.uint8), bitorder="little")
    found: list[int] = np.flatnonzero(bits).tolist()
    return found


def set_only(row: MaskRow, token_ids: Sequence[int]) -> None:
    """Allow exactly these tokens."""
    words = row.view(np.uint32)
    words[:] = 0
    for token_id in token_ids:
        words[token_id >> 5] |= np.uint32(1 << (token_id & 31))

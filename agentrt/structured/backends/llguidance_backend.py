"""Structured output by llguidance: JSON Schema, grammars and calls, in its lazy Earley parser."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from llguidance import LLMatcher

from agentrt.base.errors import ConstraintError
from agentrt.structured.backends.llguidance_closing import NO_LIMIT, find_completion
from agentrt.structured.json_schema.native import parser_limits
from agentrt.structured.matcher import ConstraintState, MaskRow, bitmask_words, set_only
from agentrt.structured.vocabulary import Alphabet

BACKEND = "llguidance"
_BASE_BYTES = 256_000

_SPECIAL = b"\xff"
"""Byte before the number of a special token in the library's forced bytes."""


class SearchedConstraint(ABC):
    """A constraint whose shortest text is found by a search.

    Args:
        alphabet: The vocabulary.

    Attributes:
        eos_ids: Tokens that end the output.
        shortest: The shortest complete text found; None before a search.
        least_tokens: See `CompiledConstraint`.
        why_open: See `CompiledConstraint`.
    """

    def __init__(self, alphabet: Alphabet) -> None:
        self.eos_ids = alphabet.vocab.eos_ids
        self.shortest: tuple[int, ...] | None = None
        self.least_tokens = 0
        self.why_open = ""

    @property
    def min_tokens(self) -> int | None:
        return None if self.shortest is None else len(self.shortest)

    @abstractmethod
    def start(self) -> ConstraintState:
        """The state before the first token."""

    def walk_to_end(self) -> None:
        """Find a complete text by the walks of `find_completion`."""
        found = self.start().completion(NO_LIMIT)
        if found is not None:
            self.shortest = tuple(found)

    def set_shortest(self, tokens: Sequence[int]) -> bool:
        """Set the shortest complete text, unless a shorter one is known.

        Returns:
            Whether the matcher accepts the tokens.
        """
        state = self.start()
        with contextlib.suppress(ConstraintError):  # too long for the parser
            if state.reaches_end(tokens):
                if self.shortest is None or len(tokens) < len(self.shortest):
                    self.shortest = tuple(tokens)
                return True
        return False


class LlguidanceConstraint(SearchedConstraint):
    """A grammar compiled for one vocabulary; its first mask is computed, so copies are warm.

    Args:
        grammar: Grammar in llguidance's format.
        alphabet: The vocabulary.
        forces: Whether its states tell forced tokens. The library keeps the interpreter while it
            looks for them, without end if the grammar is hostile; masks let others go on.

    Raises:
        ConstraintError: The grammar does not compile within the limits.
    """

    backend = BACKEND

    def __init__(self, grammar: str, alphabet: Alphabet, *, forces: bool = True) -> None:
        super().__init__(alphabet)
        self._forces = forces
        self.size_bytes = _BASE_BYTES + 16 * len(grammar)
        self._alphabet = alphabet
        self._base = LLMatcher(alphabet.tokenizer, grammar, log_level=0, limits=parser_limits())
        self._raise_error()
        row = np.zeros(bitmask_words(alphabet.vocab.logits_size), dtype=np.int32)
        _compute_bitmask(self._base, row)
        self._raise_error()

    def start(self) -> LlguidanceState:
        return LlguidanceState(self._base.deep_copy(), self._alphabet, self._forces)

    def _raise_error(self) -> None:
        if self._base.is_error():
            raise ConstraintError(
                f"does not compile: {_first_line(self._base.get_error())}",
                hint="Make the schema or grammar smaller or less ambiguous",
            )


@dataclass(slots=True, eq=False)
class LlguidanceState:
    """State of one sequence.

    Attributes:
        native: The library's matcher, for bitmasks of many rows at once.
        alphabet: The vocabulary.
        forces: Whether forced tokens are told.
        ended: Whether an end token was accepted.
        eos_ids: Tokens that end the output.
    """

    native: LLMatcher
    alphabet: Alphabet
    forces: bool = True
    ended: bool = False
    eos_ids: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.eos_ids = self.alphabet.vocab.eos_ids

    def fill_bitmask(self, row: MaskRow) -> bool:
        if self.ended:
            set_only(row, self.eos_ids)
        else:
            self.fill_bitmask_at(row.ctypes.data, row.nbytes)
        return True

    def fill_bitmask_at(self, address: int, size_bytes: int) -> None:
        """Write the mask of a state that has not ended to memory, kept alive by the caller.

        Raises:
            ConstraintError: As `fill_bitmask`.
        """
        self.native.unsafe_compute_mask_ptr(address, size_bytes)
        if self.native.is_error():
            raise matcher_error(self.native)

    def advance(self, tokens: Sequence[int]) -> int:
        if self.ended:
            return 0
        if len(tokens) == 1 and tokens[0] not in self.eos_ids:
            return self._consume(list(tokens))
        text = list(tokens)
        end = next((i for i, token in enumerate(text) if token in self.eos_ids), None)
        consumed = self._consume(text[:end])
        if end is not None and consumed == end and self.can_stop():
            self.ended = True
            return consumed + 1
        return consumed

    def _consume(self, tokens: list[int]) -> int:
        consumed: int = self.native.try_consume_tokens(tokens)
        if self.native.is_error():
            raise matcher_error(self.native)
        return consumed

    def rollback(self, count: int) -> None:
        if count and self.ended:
            self.ended = False
            count -= 1
        if count and not self.native.rollback(count):
            raise ValueError(f"cannot undo {count} tokens: {self.native.get_error()}")

    def fork(self) -> LlguidanceState:
        return LlguidanceState(self.native.deep_copy(), self.alphabet, self.forces, self.ended)

    def forced_tokens(self, limit: int) -> list[int]:
        if self.ended or limit <= 0 or not self.forces:
            return []
        tokens: list[int] = self.native.compute_ff_tokens()[:limit]
        end = next((i for i, token in enumerate(tokens) if token in self.eos_ids), None)
        return tokens[:end]

    def forced_text(self) -> bytes:
        if self.ended or not self.forces:
            return b""
        text: bytes = self.native.compute_ff_bytes()
        return text.partition(_SPECIAL)[0]

    def completion(self, limit: int) -> list[int] | None:
        return find_completion(self, limit, self.alphabet)

    def reaches_end(self, tokens: Sequence[int]) -> bool:
        if not tokens or self.ended:
            return not tokens and self.can_stop()
        consumed: int = self.native.validate_tokens([*tokens, self.eos_ids[0]])
        return consumed == len(tokens) + 1

    def can_stop(self) -> bool:
        return self.ended or bool(self.native.is_accepting())

    def must_stop(self) -> bool:
        return self.ended or bool(self.native.is_stopped() and self.native.is_accepting())


def matcher_error(matcher: LLMatcher) -> ConstraintError:
    """The error of a matcher that failed in the middle of an output."""
    return ConstraintError(
        f"the grammar cannot be followed any further: {_first_line(matcher.get_error())}",
        hint="Make the schema or grammar smaller or less ambiguous",
    )


def _first_line(text: str) -> str:
    if text.startswith(("NoExtension", "Unsatisfiable schema")):
        return "no text fits it"
    return text.strip().splitlines()[0][:300] if text.strip() else "unknown reason"


def _compute_bitmask(matcher: LLMatcher, row: MaskRow) -> None:
    """Write a mask into `row`; the library knows its address only, so keep it alive."""
    matcher.unsafe_compute_mask_ptr(row.ctypes.data, row.nbytes)

"""Regexes and choices: each sequence is in a state of a table built ahead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from agentrt.structured.backends.outlines_table import FAR, TableState, build_table, shortest_path
from agentrt.structured.matcher import MaskRow, row_of, set_only
from agentrt.structured.vocabulary import Alphabet

BACKEND = "outlines-core"
_MAX_FORCED_BYTES = 512
"""Limit of one lookahead: the rest of a long forced text follows with the next token."""


class AutomatonConstraint:
    """A regex compiled for one vocabulary."""

    backend = BACKEND
    why_open = ""

    def __init__(self, pattern: str, alphabet: Alphabet) -> None:
        vocab = alphabet.vocab
        self.alphabet = alphabet
        self.eos_ids = vocab.eos_ids
        self.states = build_table(pattern, vocab)
        self.distances = np.array([p.distance for p in self.states], dtype=np.int32)  # [states]
        self.farthest = max(d for d in self.distances.tolist() if d < FAR)
        self.size_bytes = sum(p.row.nbytes + p.tokens.nbytes * 2 + 400 for p in self.states)
        self.shortest: tuple[int, ...] | None = tuple(shortest_path(self.states, 0))

    @property
    def min_tokens(self) -> int | None:
        return self.states[0].distance

    @property
    def least_tokens(self) -> int:
        return self.states[0].distance

    def start(self) -> AutomatonState:
        return AutomatonState(self)


@dataclass(slots=True, eq=False)
class AutomatonState:
    """State of one sequence.

    Attributes:
        constraint: Constraint of the sequence.
        path: Table states so far, the first included.
        tokens: Tokens accepted so far, without the end.
        ended: Whether an end token was accepted.
    """

    constraint: AutomatonConstraint
    path: list[int] = field(default_factory=lambda: [0])
    tokens: list[int] = field(default_factory=list)
    ended: bool = False

    def fill_bitmask(self, row: MaskRow) -> bool:
        if self.ended:
            set_only(row, self.constraint.eos_ids)
        else:
            row[:] = self._current.row
        return True

    def fill_bitmask_within(self, row: MaskRow, left_tokens: int) -> bool:
        """Like `fill_bitmask`, without tokens after which the end is too far away.

        Returns:
            Whether the budget has narrowed the mask.
        """
        constraint = self.constraint
        if self.ended or left_tokens > constraint.farthest:
            self.fill_bitmask(row)
            return False
        current = self._current
        distances = constraint.distances[current.next_states]
        near = distances < left_tokens
        if bool(near.all()):
            self.fill_bitmask(row)
            return False
        allowed = current.tokens[near]
        if current.accepting:
            allowed = np.append(allowed, constraint.eos_ids)
        row[:] = row_of(allowed, len(row) * 32)
        return True

    def advance(self, tokens: Sequence[int]) -> int:
        if self.ended:
            return 0
        for count, token in enumerate(tokens):
            if token in self.constraint.eos_ids:
                self.ended = self._current.accepting
                return count + int(self.ended)
            target = self._current.next_state(token)
            if target is None:
                return count
            self.path.append(target)
            self.tokens.append(token)
        return len(tokens)

    def rollback(self, count: int) -> None:
        if count and self.ended:
            self.ended = False
            count -= 1
        if count > len(self.tokens):
            raise ValueError(f"cannot undo {count} tokens of {len(self.tokens)}")
        if count:
            del self.path[-count:]
            del self.tokens[-count:]

    def fork(self) -> AutomatonState:
        return replace(self, path=list(self.path), tokens=list(self.tokens))

    def forced_tokens(self, limit: int) -> list[int]:
        if self.ended or limit <= 0:
            return []
        text, ends = self._forced_text()
        if not text:
            return []
        tokens = self._stable(text, ends)[:limit]
        state: int | None = self.path[-1]
        for count, token in enumerate(tokens):
            state = None if state is None else self.constraint.states[state].next_state(token)
            if state is None:
                return tokens[:count]
        return tokens

    def forced_text(self) -> bytes:
        return b"" if self.ended else self._forced_text()[0]

    def completion(self, limit: int) -> list[int] | None:
        if self.ended or self._current.distance > limit:
            return [] if self.ended else None
        return shortest_path(self.constraint.states, self.path[-1])

    def reaches_end(self, tokens: Sequence[int]) -> bool:
        if self.ended:
            return not tokens
        state: int | None = self.path[-1]
        for token in tokens:
            state = None if state is None else self.constraint.states[state].next_state(token)
        return state is not None and self.constraint.states[state].accepting

    def can_stop(self) -> bool:
        return self.ended or self._current.accepting

    def must_stop(self) -> bool:
        return self.ended or (self._current.accepting and not len(self._current.tokens))

    @property
    def _current(self) -> TableState:
        return self.constraint.states[self.path[-1]]

    def _forced_text(self) -> tuple[bytes, bool]:
        """The bytes that must come next, and whether the text ends after them."""
        states, alphabet = self.constraint.states, self.constraint.alphabet
        table = alphabet.vocab.token_bytes
        forced = bytearray()
        state = self.path[-1]
        while len(forced) < _MAX_FORCED_BYTES:
            current = states[state]
            if current.accepting or not len(current.tokens):
                return bytes(forced), current.accepting and not len(current.tokens)
            first = table[int(current.tokens[0])][0]
            if any(table[token][0] != first for token in current.tokens.tolist()):
                return bytes(forced), False
            token = alphabet.byte_ids[first]
            target = None if token is None else current.next_state(token)
            if target is None:
                return bytes(forced), False
            forced.append(first)
            state = target
        return bytes(forced), False

    def _stable(self, text: bytes, ends: bool) -> list[int]:
        """Tokens of `text` without another spelling in any continuation."""
        alphabet = self.constraint.alphabet
        recent = self.tokens[-4:]
        before = alphabet.bytes_of(recent) if recent else b""
        if before is None:
            return []
        if ends:
            tokens = alphabet.tokenize(before + text)
        else:
            tokens, _ = alphabet.tokenizer.tokenize_partial(before + text)
        return tokens[len(recent) :] if tokens[: len(recent)] == recent else []

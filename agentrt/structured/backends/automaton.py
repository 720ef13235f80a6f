"""Regexes and choices: each sequence is at a place in a table made ahead."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentrt.structured.backends.outlines_table import FAR, TableState, build_places
from agentrt.structured.matcher import MaskRow, set_only
from agentrt.structured.vocabulary import Alphabet

BACKEND = "outlines-core"
_MOST_FORCED_BYTES = 512
"""Looked ahead at once: more of a long forced text comes with the next token."""


class AutomatonConstraint:
    """A regex compiled for one vocabulary."""

    backend = BACKEND

    def __init__(self, pattern: str, alphabet: Alphabet) -> None:
        vocab = alphabet.vocab
        self.alphabet = alphabet
        self.eos_ids = vocab.eos_ids
        self.places = build_places(pattern, vocab)
        self.distances = np.array([p.distance for p in self.places], dtype=np.int32)  # [places]
        self.farthest = max(d for d in self.distances.tolist() if d < FAR)
        self.size_bytes = sum(p.row.nbytes + p.tokens.nbytes * 2 + 400 for p in self.places)
        self.shortest: tuple[int, ...] | None = tuple(self.way_to_end(0))

    @property
    def min_tokens(self) -> int | None:
        return self.places[0].distance

    def start(self) -> AutomatonState:
        return AutomatonState(self)

    def way_to_end(self, place: int) -> list[int]:
        """The shortest tokens from a place to a whole text."""
        way: list[int] = []
        while (token := self.places[place].onward) is not None:
            way.append(token)
            onto = self.step(place, token)
            assert onto is not None
            place = onto
        return way

    def step(self, place: int, token: int) -> int | None:
        """The place behind `token`; None where it is not allowed."""
        here = self.places[place]
        at = int(np.searchsorted(here.tokens, token))
        if at == len(here.tokens) or int(here.tokens[at]) != token:
            return None
        return int(here.next_places[at])


class AutomatonState:
    """Where one sequence stands."""

    __slots__ = ("_constraint", "_ended", "_path", "_tokens")

    def __init__(self, constraint: AutomatonConstraint) -> None:
        self._constraint = constraint
        self._path = [0]
        self._tokens: list[int] = []
        self._ended = False

    def fill_mask(self, row: MaskRow) -> bool:
        if self._ended:
            set_only(row, self._constraint.eos_ids)
        else:
            row[:] = self._here.row
        return True

    def fill_mask_within(self, row: MaskRow, left_tokens: int) -> bool:
        """Like `fill_mask`, without tokens from behind which the end is too far.

        Returns:
            Whether the budget has narrowed the mask.
        """
        constraint = self._constraint
        if self._ended or left_tokens > constraint.farthest:
            self.fill_mask(row)
            return False
        here = self._here
        distances = constraint.distances[here.next_places]
        near = distances < left_tokens
        if bool(near.all()):
            self.fill_mask(row)
            return False
        bits = np.zeros(len(row) * 32, dtype=np.uint8)
        bits[here.tokens[near]] = 1
        if here.whole:
            bits[list(constraint.eos_ids)] = 1
        row[:] = np.packbits(bits, bitorder="little").view(np.int32)
        return True

    def advance(self, tokens: Sequence[int]) -> int:
        if self._ended:
            return 0
        for count, token in enumerate(tokens):
            if token in self._constraint.eos_ids:
                self._ended = self._here.whole
                return count + int(self._ended)
            onto = self._constraint.step(self._path[-1], token)
            if onto is None:
                return count
            self._path.append(onto)
            self._tokens.append(token)
        return len(tokens)

    def rollback(self, count: int) -> None:
        if count and self._ended:
            self._ended = False
            count -= 1
        if count > len(self._tokens):
            raise ValueError(f"cannot undo {count} tokens of {len(self._tokens)}")
        if count:
            del self._path[-count:]
            del self._tokens[-count:]

    def fork(self) -> AutomatonState:
        twin = AutomatonState(self._constraint)
        twin._path = list(self._path)
        twin._tokens = list(self._tokens)
        twin._ended = self._ended
        return twin

    def forced(self, limit: int) -> list[int]:
        if self._ended or limit <= 0:
            return []
        text, ends = self._forced_text()
        if not text:
            return []
        tokens = self._stable(text, ends)[:limit]
        place: int | None = self._path[-1]
        for count, token in enumerate(tokens):
            place = None if place is None else self._constraint.step(place, token)
            if place is None:
                return tokens[:count]
        return tokens

    def forced_text(self) -> bytes:
        return b"" if self._ended else self._forced_text()[0]

    def completion(self, limit: int) -> list[int] | None:
        if self._ended or self._here.distance > limit:
            return [] if self._ended else None
        return self._constraint.way_to_end(self._path[-1])

    def reaches_end(self, tokens: Sequence[int]) -> bool:
        if self._ended:
            return not tokens
        place: int | None = self._path[-1]
        for token in tokens:
            place = None if place is None else self._constraint.step(place, token)
        return place is not None and self._constraint.places[place].whole

    def can_stop(self) -> bool:
        return self._ended or self._here.whole

    def must_stop(self) -> bool:
        return self._ended or (self._here.whole and not len(self._here.tokens))

    @property
    def _here(self) -> TableState:
        return self._constraint.places[self._path[-1]]

    def _forced_text(self) -> tuple[bytes, bool]:
        """The bytes that must come next, and whether the text ends behind them."""
        places, alphabet = self._constraint.places, self._constraint.alphabet
        table = alphabet.vocab.token_bytes
        forced = bytearray()
        place = self._path[-1]
        while len(forced) < _MOST_FORCED_BYTES:
            here = places[place]
            if here.whole or not len(here.tokens):
                return bytes(forced), here.whole and not len(here.tokens)
            first = table[int(here.tokens[0])][0]
            if any(table[token][0] != first for token in here.tokens.tolist()):
                return bytes(forced), False
            token = alphabet.byte_ids[first]
            onto = None if token is None else self._constraint.step(place, token)
            if onto is None:
                return bytes(forced), False
            forced.append(first)
            place = onto
        return bytes(forced), False

    def _stable(self, text: bytes, ends: bool) -> list[int]:
        """The tokens of `text` that no continuation could spell otherwise."""
        alphabet = self._constraint.alphabet
        recent = self._tokens[-4:]
        before = alphabet.bytes_of(recent) if recent else b""
        if before is None:
            return []
        if ends:
            tokens = alphabet.spell(before + text)
        else:
            tokens, _ = alphabet.tokenizer.tokenize_partial(before + text)
        return tokens[len(recent) :] if tokens[: len(recent)] == recent else []

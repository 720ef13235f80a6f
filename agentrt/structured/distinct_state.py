"""Arrays of distinct items: the matcher's masks without the tokens that would repeat an item.

A token is left out if it completes an item that is written already, or if all that could follow it
does. The first is seen from the text alone. The second is a walk of the matcher, needed only while
the present item begins like another one and its type leaves few ways to go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agentrt.structured.backends.llguidance_backend import (
    BACKEND,
    LlguidanceConstraint,
    LlguidanceState,
    SearchedConstraint,
)
from agentrt.structured.backends.llguidance_closing import find_completion
from agentrt.structured.distinct_tokens import ItemTokens, item_tokens_of
from agentrt.structured.json_schema.distinct import DistinctPlaces
from agentrt.structured.json_schema.distinct_text import (
    NEGATIVE_ZERO,
    DocumentPosition,
    OpenContainer,
    follow,
)
from agentrt.structured.json_schema.distinct_values import (
    Way,
    after_byte,
    is_complete,
    next_bytes,
)
from agentrt.structured.matcher import MaskRow, allowed_ids, bitmask_words
from agentrt.structured.vocabulary import Alphabet

MAX_STEPS = 200
"""Steps of a walk for a way to go on; a token is left out if none is found within them."""

_CLOSED = (b'"', b"]", b"}", b"e", b"l")
"""The last bytes of values that cannot go on: `true`, `false` and `null` among them."""


class DistinctConstraint(SearchedConstraint):
    """A schema with distinct items, compiled for one vocabulary.

    Args:
        grammar: The schema without that requirement, compiled.
        places: Places of the schema.
        alphabet: The vocabulary.
    """

    backend = BACKEND

    def __init__(
        self, grammar: LlguidanceConstraint, places: DistinctPlaces, alphabet: Alphabet
    ) -> None:
        super().__init__(alphabet)
        self.size_bytes = grammar.size_bytes
        self._grammar = grammar
        self._start = DocumentPosition.at_start(places.root)
        self._alphabet = alphabet

    def start(self) -> DistinctState:
        tokens = item_tokens_of(self._alphabet.vocab)
        return DistinctState(self._grammar.start(), self._start, tokens)


@dataclass(slots=True, eq=False)
class DistinctState:
    """State of one sequence.

    Attributes:
        matcher: The state in the grammar.
        at: Position in the text.
        tokens: The vocabulary.
        text: The text so far.
        history: Length of the text and position before each token.
    """

    matcher: LlguidanceState
    at: DocumentPosition
    tokens: ItemTokens
    text: bytearray = field(default_factory=bytearray)
    history: list[tuple[int, DocumentPosition]] = field(default_factory=list)
    _masked_at: int = -1
    _left_out: set[int] = field(default_factory=set)

    def fill_bitmask(self, row: MaskRow) -> bool:
        self.matcher.fill_bitmask(row)
        if self.matcher.ended:
            return True
        words = row.view(np.uint32)
        left_out = {
            token
            for token in self._suspects(words)
            if int(words[token >> 5]) >> (token & 31) & 1 and not self._goes_on(token)
        }
        for token in left_out:
            words[token >> 5] &= ~np.uint32(1 << (token & 31))
        self._masked_at, self._left_out = len(self.history), left_out
        return True

    def advance(self, tokens: Sequence[int]) -> int:
        for accepted, token in enumerate(tokens):
            is_end = token in self.matcher.eos_ids
            if not is_end and not self._allows(token):
                return accepted
            if self.matcher.advance((token,)) != 1:
                return accepted
            self.history.append((len(self.text), self.at))
            if not is_end:
                self._write(self._bytes(token))
        return len(tokens)

    def rollback(self, count: int) -> None:
        self.matcher.rollback(count)
        if count:
            length, self.at = self.history[-count]
            del self.history[-count:]
            del self.text[length:]
            self._masked_at = -1

    def fork(self) -> DistinctState:
        return DistinctState(
            self.matcher.fork(), self.at, self.tokens, self.text[:], self.history[:]
        )

    def forced_tokens(self, limit: int) -> list[int]:
        forced = self.matcher.forced_tokens(limit)
        at, text = self.at, self.text[:]
        for count, token in enumerate(forced):
            after = follow(at, text, self._bytes(token))
            if after is None:
                return forced[:count]
            at = after
            text += self._bytes(token)
        return forced

    def forced_text(self) -> bytes:
        return self.matcher.forced_text()

    def completion(self, limit: int) -> list[int] | None:
        return find_completion(self, limit, self.matcher.alphabet)

    def reaches_end(self, tokens: Sequence[int]) -> bool:
        ahead = self.fork()
        return ahead.advance(tokens) == len(tokens) and ahead.can_stop()

    def can_stop(self) -> bool:
        return self.matcher.can_stop()

    def must_stop(self) -> bool:
        return self.matcher.must_stop()

    def _bytes(self, token: int) -> bytes:
        table = self.matcher.alphabet.vocab.token_bytes
        return table[token] if token < len(table) else b""

    def _write(self, more: bytes) -> None:
        after = follow(self.at, self.text, more)
        assert after is not None
        self.at = after
        self.text += more

    def _allows(self, token: int) -> bool:
        if self._masked_at == len(self.history):
            return token not in self._left_out
        return self._goes_on(token)

    def _suspects(self, words: NDArray[np.uint32]) -> set[int]:
        """Tokens that may repeat an item, or leave no way around it."""
        held = self.at.held()
        groups = [self.tokens.ends_two]
        found: set[int] = set()
        for container in held:
            found.update(self._alike(container))
        if held:
            found.update(self.tokens.starting_with(b"0") if self.text.endswith(b"-") else ())
            groups.append(self.tokens.negative_zeros)
            if self.text.endswith(NEGATIVE_ZERO):
                for end in (b",", b"]", b"}"):
                    found.update(self.tokens.starting_with(end))
            if not all(one.place is not None and one.place.is_open for one in held):
                groups.append(self.tokens.ends_string)
                groups.append(self.tokens.ends_item)
        for group in groups:
            bits = words[group >> 5] >> (group & 31).astype(np.uint32) & 1
            found.update(group[bits.astype(bool)].tolist())
        return found

    def _alike(self, container: OpenContainer) -> Iterator[int]:
        """Tokens by which the present item goes on like one before it."""
        begun = container.begun(self.text)
        if container.is_by_value:
            yield from self._along(container.ways_to_repeat(begun))
            return
        blanks = (b"", b" ") if len(self.text) == container.begins else (b"",)
        is_open = container.place is not None and container.place.is_open
        items = () if container.written is None else container.written.beginning_with(begun)
        for item in items:
            for rest in (blank + item[len(begun) :] for blank in blanks):
                yield from self._covering(rest, are_few=not is_open)

    def _along(self, ways: list[Way]) -> Iterator[int]:
        """Tokens that are part of some ways to go on, or complete them."""
        todo = [(b"", ways)]
        while todo:
            text, ways = todo.pop()
            if is_complete(ways):
                for end in (b",", b"]"):
                    yield from self.tokens.starting_with(text + end)
            for byte in next_bytes(ways):
                longer = text + bytes((byte,))
                if self.tokens.any_starting_with(longer):
                    yield from self.tokens.exactly(longer)
                    todo.append((longer, after_byte(ways, byte)))

    def _covering(self, rest: bytes, *, are_few: bool) -> Iterator[int]:
        """Tokens that complete an item by `rest`; those that are part of it, too, if `are_few`."""
        longest = self.matcher.alphabet.longest_bytes
        if len(rest) <= longest:
            yield from self.tokens.starting_with(rest) if rest else ()
            for end in (b",", b"]"):
                yield from self.tokens.starting_with(rest + end)
        if are_few:
            for length in range(1, min(len(rest), longest + 1)):
                yield from self.tokens.exactly(rest[:length])

    def _goes_on(self, token: int) -> bool:
        """Whether a token repeats no item and leaves a way to a distinct one."""
        more = self._bytes(token)
        after = follow(self.at, self.text, more)
        if after is None:
            return False
        text = self.text + more
        if _repeats(after, text):
            return False
        if _is_free(after, text):
            return True
        has_more = _has_more(after, text)
        if has_more is not None:
            return has_more
        ahead = self.matcher.fork()
        return ahead.advance((token,)) == 1 and self._leads_on(ahead, after, text)

    def _leads_on(self, matcher: LlguidanceState, at: DocumentPosition, text: bytearray) -> bool:
        """Whether some text leads from here to an item unlike those before it."""
        row = np.zeros(bitmask_words(matcher.alphabet.vocab.logits_size), np.int32)
        todo, steps = [(matcher, at, text)], 0
        while todo and steps < MAX_STEPS:
            steps += 1
            here, at, text = todo.pop()
            if here.can_stop():
                return True
            here.fill_bitmask(row)
            for token in self._one_for_each_byte(row):
                more = self._bytes(token)
                after = follow(at, text, more)
                if after is None:
                    continue
                longer = text + more
                if _is_free(after, longer):
                    return True
                ahead = here.fork()
                if ahead.advance((token,)) == 1:
                    todo.append((ahead, after, longer))
        return False

    def _one_for_each_byte(self, row: MaskRow) -> list[int]:
        """The shortest allowed token for each first byte."""
        allowed = np.array(allowed_ids(row), np.int32)
        allowed = allowed[allowed < len(self.tokens.lengths)]
        allowed = allowed[self.tokens.lengths[allowed] > 0]
        ordered = allowed[np.argsort(self.tokens.lengths[allowed], kind="stable")]
        _, first = np.unique(self.tokens.first_bytes[ordered], return_index=True)
        chosen: list[int] = ordered[first].tolist()
        return chosen


def _repeats(at: DocumentPosition, text: bytearray) -> bool:
    """Whether the present item is complete, cannot go on, and is written already."""
    last = at.containers[-1]
    if last.written is None or at.in_string or text[-1:] not in _CLOSED:
        return False
    return last.repeats(last.begun(text))


def _has_more(at: DocumentPosition, text: bytearray) -> bool | None:
    """Whether listed items go on from here besides those that are written; None if a walk shows."""
    found: list[bool | None] = []
    for one in at.held():
        begun = one.begun(text)
        if one.written is not None and one.may_repeat(begun):
            listed = None if one.place is None else one.place.listed
            written = list(one.written.beginning_with(begun))
            found.append(None if listed is None else listed.has_more(begun, written))
    if False in found:
        return False
    return True if found and None not in found else None


def _is_free(at: DocumentPosition, text: bytes | bytearray) -> bool:
    """Whether no item begins like one before it, or the present one can still become any.

    A number that begins with -0 is not free: it may have to be 0.
    """
    if at.may_be_negative_zero(text):
        return False
    held = at.held()
    if held and held[-1] is at.containers[-1]:
        last = held[-1]
        begins_or_goes_on = at.in_string or not last.begun(text)
        if begins_or_goes_on and last.place is not None and last.place.is_open:
            return True
        if last.place is not None and last.place.is_endless and not last.begun(text):
            return True
    return not any(one.may_repeat(one.begun(text)) for one in held)

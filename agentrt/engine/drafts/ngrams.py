"""Places of n-grams in texts: where the last tokens of a text stood before, and what followed.

Source: prompt lookup decoding (Saxena, 2023); vLLM calls it n-gram speculation.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

NGRAM_TOKENS = 3
"""Tokens that have to agree before what followed them is guessed."""

START = [-1] * NGRAM_TOKENS
"""Tokens before the first one of an output, so that its beginning can be guessed too."""

_TOKEN_BYTES = 4
_REALIGN_TOKENS = 12
"""Tokens of a text that are searched for the place at which it agrees again."""

_Place = tuple[list[int], int]


@dataclass(slots=True, eq=False)
class Trail:
    """A place in a text that is followed for as long as new tokens agree with it.

    Attributes:
        text: The text; it may grow.
        at: Index of the token that is guessed next.
        agreed_tokens: New tokens that have agreed so far.
    """

    text: list[int]
    at: int
    agreed_tokens: int = 0

    def follow(self, token_ids: list[int]) -> bool:
        """Move over new tokens; False if they differ from the text."""
        end = self.at + len(token_ids)
        if self.text[self.at : end] != token_ids:
            return False
        self.at = end
        self.agreed_tokens += len(token_ids)
        return True

    def realign(self, token_id: int) -> bool:
        """Move behind the next occurrence of a token, past a value that differs."""
        try:
            self.at = 1 + self.text.index(token_id, self.at, self.at + _REALIGN_TOKENS)
        except ValueError:
            return False
        self.agreed_tokens = 0
        return True


class NgramIndex:
    """N-grams of several texts, each with the place of the token behind it; the latest counts."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, ...], _Place] = {}

    def __len__(self) -> int:
        return len(self._places)

    def add(self, text: list[int], begin: int) -> None:
        """Add the n-grams in front of the tokens from index `begin` on, which is not below n."""
        for at in range(begin, len(text)):
            self._places[tuple(text[at - NGRAM_TOKENS : at])] = text, at

    def remove(self, text: list[int]) -> None:
        """Remove the n-grams of a text."""
        places = self._places
        for at in range(NGRAM_TOKENS, len(text)):
            ngram = tuple(text[at - NGRAM_TOKENS : at])
            if ngram in places and places[ngram][0] is text:
                del places[ngram]

    def find(self, text: list[int]) -> Trail | None:
        """The place in another text behind the last n-gram of `text`."""
        place = self._places.get(tuple(text[-NGRAM_TOKENS:]))
        return None if place is None or place[0] is text else Trail(*place)


class TextLookup:
    """Earlier occurrences of the last tokens of one text, found by a search of its bytes.

    An index of a long prompt would take more time than all searches in it.
    """

    def __init__(self) -> None:
        self._bytes = bytearray()

    def extend(self, token_ids: Sequence[int]) -> None:
        """Append tokens."""
        self._bytes += array("i", token_ids).tobytes()

    def find(self) -> int | None:
        """Index behind the latest earlier occurrence of the last n-gram."""
        ngram = self._bytes[-NGRAM_TOKENS * _TOKEN_BYTES :]
        if len(ngram) < NGRAM_TOKENS * _TOKEN_BYTES:
            return None
        end = len(self._bytes) - _TOKEN_BYTES
        while (at := self._bytes.rfind(ngram, 0, end)) >= 0:
            if at % _TOKEN_BYTES == 0:
                return at // _TOKEN_BYTES + NGRAM_TOKENS
            end = at + len(ngram) - 1
        return None


def continuation(text: list[int], at: int, limit: int) -> list[int]:
    """At most `limit` tokens that would follow if the text repeated itself from index `at` on."""
    found = text[at : at + limit]
    period = len(found)
    while found and len(found) < limit:
        found += found[len(found) - period :][: limit - len(found)]
    return found

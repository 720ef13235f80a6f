"""Recorded text in the words of a model: equal units become equal words.

A model of random weights reads made-up words. Text is split into units of about four characters,
as tokenizers split it, and each different unit gets a word of its own. Whatever repeats in the
text then repeats in the words, which is all that guesses of tokens depend on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from random import Random

_UNIT = re.compile(r"\s*\n\s*|[ _]?[A-Za-z]+| ?[0-9]{1,3}| ?[^A-Za-z0-9\s]{1,4}|\s+")
_LETTERS = 8  # of a unit; a longer word is cut into even pieces
_MIXER = 2_654_435_761  # Knuth's multiplicative hash


def units_of(text: str) -> Iterator[str]:
    """Split text into units; joined they are the text.

    Example:
        >>> list(units_of("an identification, 1000"))
        ['an', ' identif', 'ication', ',', ' 100', '0']
    """
    for match in _UNIT.finditer(text):
        unit = match[0]
        word = unit.lstrip(" _")
        if not word.isalpha() or len(word) <= _LETTERS:
            yield unit
            continue
        pieces = -(-len(word) // _LETTERS)
        ends = [len(word) * (at + 1) // pieces for at in range(pieces)]
        space = unit[: len(unit) - len(word)]
        yield space + word[: ends[0]]
        yield from (word[begin:end] for begin, end in pairwise(ends))


class Codebook:
    """Numbers of units, in the order in which they first occur."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._units: list[str] = []

    def __len__(self) -> int:
        return len(self._units)

    def encode(self, text: str) -> tuple[int, ...]:
        """Numbers of the units of a text; new units are numbered."""
        return tuple(map(self._number, units_of(text)))

    def unit(self, number: int) -> str:
        """The unit of a number."""
        return self._units[number]

    def shared(self, words: int) -> int:
        """Units that share a word if there are so many."""
        return max(0, len(self) - words)

    def _number(self, unit: str) -> int:
        number = self._numbers.setdefault(unit, len(self._units))
        if number == len(self._units):
            self._units.append(unit)
        return number


@lru_cache(maxsize=64)
def word_order(words: int, salt: str) -> Sequence[int]:
    """An order of words; another salt gives another one."""
    order = list(range(words))
    Random(salt).shuffle(order)
    return order


def word_at(number: int, words: int) -> int:
    """Place of a unit's word in an order of so many words.

    If there are more units than words, those that first occur late, which are rare, share the later
    half of the words.
    """
    if number < words:
        return number
    begin = words // 2
    return begin + number * _MIXER % (words - begin)

"""The tokens of a vocabulary by what they may do to the items of an array."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentrt.base.vocabulary import Vocab
from agentrt.structured.vocabulary import PerVocab

_STRING = rb'"(?:[^"\\]|\\.)*"'
_ENDS_ITEM = re.compile(rb'[^"]*[,\]]|[^"]*' + _STRING + rb'[^"]*[,\]]', re.DOTALL)
_ENDS_STRING = re.compile(rb'(?:[^"\\]|\\.)*"[^"]*[,\]]', re.DOTALL)
_ENDS_TWO = re.compile(rb".*[,\]].*[,\]]", re.DOTALL)

TokenIds = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class ItemTokens:
    """The tokens of a vocabulary by what they may do to an item.

    Attributes:
        texts: The texts of all tokens, sorted.
        ids: The token of each text.
        ends_item: Tokens that may end an item that is no open string.
        ends_string: Tokens that may end an item from within a string.
        ends_two: Tokens of both kinds that may end a second item, too.
        negative_zeros: Tokens that may write 0 as -0.
        first_bytes: By token: its first byte; -1 for none.
        lengths: By token: its length in bytes.
    """

    texts: list[bytes]
    ids: list[int]
    ends_item: TokenIds
    ends_string: TokenIds
    ends_two: TokenIds
    negative_zeros: TokenIds
    first_bytes: NDArray[np.int16]
    lengths: NDArray[np.int32]

    def starting_with(self, text: bytes) -> list[int]:
        """Tokens whose text starts with `text`."""
        first = bisect_left(self.texts, text)
        end = first
        while end < len(self.texts) and self.texts[end].startswith(text):
            end += 1
        return self.ids[first:end]

    def any_starting_with(self, text: bytes) -> bool:
        """Whether a token starts with `text`."""
        at = bisect_left(self.texts, text)
        return at < len(self.texts) and self.texts[at].startswith(text)

    def exactly(self, text: bytes) -> Iterator[int]:
        """Tokens with this text."""
        at = bisect_left(self.texts, text)
        while at < len(self.texts) and self.texts[at] == text:
            yield self.ids[at]
            at += 1


def _build(vocab: Vocab) -> ItemTokens:
    table = vocab.token_bytes
    order = sorted((text, token) for token, text in enumerate(table) if text)
    item = [token for token, text in enumerate(table) if _ENDS_ITEM.match(text)]
    string = [token for token, text in enumerate(table) if _ENDS_STRING.match(text)]
    two = [token for token in {*item, *string} if _ENDS_TWO.match(table[token])]
    return ItemTokens(
        texts=[text for text, _ in order],
        ids=[token for _, token in order],
        ends_item=np.array(item, np.int32),
        ends_string=np.array(string, np.int32),
        ends_two=np.array(sorted(two), np.int32),
        negative_zeros=np.array([t for t, text in enumerate(table) if b"-0" in text], np.int32),
        first_bytes=np.array([text[0] if text else -1 for text in table], np.int16),
        lengths=np.array([len(text) for text in table], np.int32),
    )


item_tokens_of: PerVocab[ItemTokens] = PerVocab(_build)
"""The `ItemTokens` of a vocabulary; cached for the four used last."""

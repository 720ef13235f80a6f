"""Text of an exact number of tokens, for the pieces of a trace.

A text is made of words that the tokenizer writes as one token each, a space before each: a word is
then one token wherever it stands, so that the lengths of parts add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from random import Random

from tokenizers import Tokenizer

from agentrt.errors import UsageError

_LEAST_WORDS = 16


class Speller:
    """Spells keys.

    Args:
        words: Each with its space, each one token.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words

    def __call__(self, key: str, tokens: int) -> str:
        """A text of so many tokens; equal keys give equal text, longer ones begin like shorter."""
        return "".join(Random(key).choices(self._words, k=tokens))


@lru_cache(maxsize=8)
def words_of(tokenizer: Path) -> tuple[str, ...]:
    """All words of lower-case letters that a tokenizer writes as one token.

    Args:
        tokenizer: Its `tokenizer.json`.

    Raises:
        UsageError: There are too few: it does not split text at spaces.
    """
    reads = Tokenizer.from_file(str(tokenizer))
    found = []
    for token in range(reads.get_vocab_size()):
        word = reads.decode([token])
        letters = word[1:]
        plain = word[:1] == " " and letters.isascii() and letters.isalpha() and letters.islower()
        if plain and reads.encode(word + word, add_special_tokens=False).ids == [token, token]:
            found.append(word)
    if len(found) < _LEAST_WORDS:
        raise UsageError(
            f"{tokenizer} writes {len(found)} words as one token each",
            hint="Give a byte-level tokenizer that splits text at spaces",
        )
    return tuple(found)

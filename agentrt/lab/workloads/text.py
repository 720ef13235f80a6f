"""Text of an exact number of tokens, for the pieces of a trace.

A text is made of words that the tokenizer writes as one token each, a space before each: a word is
then one token wherever it stands, so that the lengths of parts add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Protocol

from tokenizers import Tokenizer

from agentrt.base.errors import UsageError
from agentrt.lab.workloads.trace import ProgramTrace, TraceCall

_LEAST_WORDS = 16
_FORCED_AT_ONCE = 4  # tokens of a name and its punctuation


class TextSpeller(Protocol):
    """Spells the texts of programs."""

    def salted(self, salt: str) -> TextSpeller:
        """Other text of the same lengths."""
        ...

    def __call__(self, key: str, tokens: int) -> str:
        """The text of a piece or a result, of so many tokens."""
        ...

    def form(self, program: ProgramTrace, call: TraceCall) -> str:
        """A regular expression that holds the output of a call; "" if it is free."""
        ...

    def output(self, program: ProgramTrace, call: TraceCall) -> str:
        """The recorded output of a call; "" if there is none."""
        ...


class KeySpeller:
    """Spells keys as text; equal keys give equal text.

    Args:
        words: Words, each with its space and each one token.
        salt: Text depends on it as well, lengths do not.

    Attributes:
        word_letters: Letters of each word; None if they differ.
    """

    def __init__(self, words: Sequence[str], salt: str = "") -> None:
        self._words = words
        self._salt = salt
        lengths = {len(word) - 1 for word in words}
        self.word_letters = lengths.pop() if len(lengths) == 1 else None

    def salted(self, salt: str) -> KeySpeller:
        """Other text of the same lengths."""
        return KeySpeller(self._words, f"{salt}/")

    def __call__(self, key: str, tokens: int) -> str:
        """A text of so many tokens; a longer text of a key begins like a shorter one."""
        return "".join(Random(self._salt + key).choices(self._words, k=tokens))

    def form(self, program: ProgramTrace, call: TraceCall) -> str:
        """A pattern, the same for all calls of a call site but for its length; or ""."""
        if not call.forced_tokens or self.word_letters is None:
            return ""
        form = f"{program.shape}/{call.site}/form"
        return self.pattern(form, call.output_tokens, call.forced_tokens)

    def output(self, program: ProgramTrace, call: TraceCall) -> str:
        """Nothing is recorded."""
        return ""

    def pattern(self, key: str, tokens: int, forced_tokens: int) -> str:
        """A regular expression that matches texts of so many words, some of which are given.

        Given words come a few at once, as the names and the punctuation of an object do. A model
        that prefers whole words writes it in just as many tokens.

        Args:
            key: Key of the given words.
            tokens: All words.
            forced_tokens: Given words.

        Raises:
            ValueError: Words differ in length, so that the number of tokens is not known.
        """
        if self.word_letters is None:
            raise ValueError("words of several lengths make no pattern")
        word = f" [a-z]{{{self.word_letters}}}"
        groups = max(1, -(-forced_tokens // _FORCED_AT_ONCE))
        given = self(key, forced_tokens)
        width = self.word_letters + 1
        found, at = "", 0
        for group in range(groups):
            end = forced_tokens * (group + 1) // groups
            free = _share(tokens - forced_tokens, group, groups)
            found += given[at * width : end * width] + (f"({word}){{{free}}}" if free else "")
            at = end
        return found


def _share(total: int, at: int, of: int) -> int:
    return total * (at + 1) // of - total * at // of


@lru_cache(maxsize=8)
def words_of(tokenizer: Path) -> tuple[str, ...]:
    """Words of lower-case letters that a tokenizer writes as one token.

    All of them have the same length if most of the tokenizer's words have.

    Args:
        tokenizer: Path of a `tokenizer.json`.

    Raises:
        UsageError: There are too few: the tokenizer does not split text at spaces.
    """
    reads = Tokenizer.from_file(str(tokenizer))
    found = []
    for token in range(reads.get_vocab_size()):
        word = reads.decode([token])
        letters = word[1:]
        plain = word[:1] == " " and letters.isascii() and letters.isalpha() and letters.islower()
        if plain and reads.encode(word + word, add_special_tokens=False).ids == [token, token]:
            found.append(word)
    longest = max((len(word) for word in found), default=0)
    whole = [word for word in found if len(word) == longest]
    if 2 * len(whole) > len(found):
        found = whole
    if len(found) < _LEAST_WORDS:
        raise UsageError(
            f"{tokenizer} writes {len(found)} words as one token each",
            hint="Give a byte-level tokenizer that splits text at spaces",
        )
    return tuple(found)

"""Ids of words that were encoded before, where a tokenizer provably cuts text at them.

A tokenizer takes about a microsecond a word, three times that where its data have left the
processor's cache since the last text. Looking a word up takes a quarter.

The proof: each of the patterns below is a list of alternatives of which none matches a character
other than whitespace and then a space, and none looks behind; they look ahead only within or right
behind whitespace. So text is always cut between a printable character and a space before a letter,
what stands before the cut does not change what comes after it, and the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby, islice, pairwise
from typing import Any

from tokenizers import Tokenizer

CUT = re.compile(r"[!-~](?= [A-Za-z])")
"""The character before a cut."""

_WORD = re.compile(r" ?[A-Za-z]+(?:'[a-z]{1,2})?[.,;:!?]?")
"""Pattern of the texts that are kept. The time of encoding reveals no others, such as secrets."""

_LONGEST_WORD = 24
MOST_WORDS = 32_768

_RUN_WORDS = 3
"""Words in a run, of known ones or of others, from which on the runs cost less than the whole."""

_LEARNED_AT_ONCE = 16
"""Words that one text adds: each is encoded once more, by itself."""

_CONTRACTIONS = "'s|'t|'re|'ve|'m|'ll|'d"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_LETTERS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_MARKS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"

_GPT2 = rf"{_CONTRACTIONS}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+"
PATTERNS = frozenset(
    {
        _GPT2,
        rf"(?i:{_CONTRACTIONS})|{_LETTERS}|\p{{N}}{{1,3}}|{_MARKS}|{_SPACES}",  # Llama 3
        rf"(?i:{_CONTRACTIONS})|{_LETTERS}|\p{{N}}|{_MARKS}|{_SPACES}",  # Qwen
        r"\p{Lu}|\p{N}|[^\r\n\p{L}\p{N}]?[\p{Ll}\p{Lm}\p{Lo}\p{Lt}\p{M}]+| ?[^\s\p{L}\p{N}]+|"
        + _SPACES,  # the embedded model's
    }
)
"""Patterns by which tokenizers cut text, of which the proof holds."""


class Words:
    """Encodes text word by word, by a tokenizer that cuts it there.

    Args:
        tokenizer: Encodes what is not known.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: dict[str, list[int]] = {}

    @staticmethod
    def last_cut(text: str) -> int:
        """Place of the last cut in a text, which is none of its ends; 0 without one."""
        space = text.rfind(" ")
        while space > 0:
            if CUT.match(text, space - 1):
                return space
            space = text.rfind(" ", 0, space)
        return 0

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        known = self._ids
        ends = [0, *[found.end() for found in CUT.finditer(text)], len(text)]
        words = [text[start:end] for start, end in pairwise(ends)]
        runs = [(is_known, [*run]) for is_known, run in groupby(words, known.__contains__)]
        new = [word for is_known, run in runs if not is_known for word in run]
        if len(runs) * _RUN_WORDS > len(words):
            ids = self._new_ids(text)
        else:
            ids = []
            for is_known, run in runs:
                if is_known:
                    for word in run:
                        ids += known[word]
                else:
                    ids += self._new_ids("".join(run))
        if new:
            learned = islice(filter(_is_word, dict.fromkeys(new)), _LEARNED_AT_ONCE)
            self._keep({word: self._new_ids(word) for word in learned})
        return ids

    def _keep(self, found: dict[str, list[int]]) -> None:
        if len(self._ids) + len(found) > MOST_WORDS:
            self._ids = {}  # another thread may still read the old ones
        self._ids.update(found)

    def _new_ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def _is_word(text: str) -> bool:
    return len(text) <= _LONGEST_WORD and _WORD.fullmatch(text) is not None


def cuts_at_words(tokenizer: dict[str, Any], added: Sequence[dict[str, Any]]) -> bool:
    """Whether a tokenizer provably cuts text at words, and encodes each by itself.

    Args:
        tokenizer: The parsed `tokenizer.json`.
        added: Added tokens that are text.
    """
    normalizer = tokenizer.get("normalizer")
    composes = isinstance(normalizer, dict) and normalizer.get("type") == "NFC"
    model = tokenizer.get("model")
    is_exact = isinstance(model, dict) and model.get("type") == "BPE" and not model.get("dropout")
    if not is_exact or not (normalizer is None or composes):
        return False
    if any(" " in one["content"] or one.get("lstrip") or one.get("rstrip") for one in added):
        return False
    return _cuts(tokenizer.get("pre_tokenizer"))


def _cuts(pre_tokenizer: Any) -> bool:
    match pre_tokenizer:
        case {"type": "Sequence", "pretokenizers": [only]}:
            return _cuts(only)
        case {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}:
            return True
        case {
            "type": "Sequence",
            "pretokenizers": [
                {
                    "type": "Split",
                    "pattern": {"Regex": str(pattern)},
                    "behavior": "Isolated",
                    "invert": False,
                },
                {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
            ],
        }:
            return pattern in PATTERNS
    return False

"""Encoding text in parts, with ids equal to those of the whole.

A tokenizer first cuts text into pieces (words, numbers, runs of spaces) and merges bytes inside a
piece only. So a part is sealed up to a piece boundary before any trailing whitespace, and the rest
is pending until more is known. Two pieces are kept pending, not one: `I'l` is cut `I`, `'`, `l`,
but `I'll` is cut `I`, `'ll`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from functools import lru_cache
from typing import Any

from tokenizers import Encoding, Tokenizer

from agentrt.base.errors import RequestRejected
from agentrt.base.ranges import has_lone_surrogate
from agentrt.prompt.large_text import LARGE_CHARACTERS
from agentrt.prompt.text_model import TextModel
from agentrt.prompt.words import Words, cuts_at_words

SHORT_CHARACTERS = 256
PENDING_PIECES = 2

SAMPLE = (
    "The 1,234 foxes' dens weren't  we'll they've full:\n\n\tx = [3.14159, -2]; // done!!! \r\n"
    "Naïve café — 東京 2024年。 e\u0301 \U0001f600\u200d\U0001f4bb  end  \n  HTTPServer2x "
)


class TextPosition(IntEnum):
    """Position of a text in the whole text; prefix spaces depend on it."""

    START = 0
    AFTER_MARKER = 1
    INSIDE = 2


class TextEncoder:
    """Encodes text without markers.

    Attributes:
        seals: Whether parts can be sealed; if not, text is pending until a marker ends it.
    """

    def __init__(
        self, tokenizer: dict[str, Any], added: list[dict[str, Any]], markers: frozenset[str]
    ) -> None:
        """Set up from a parsed `tokenizer.json`.

        Args:
            tokenizer: The JSON.
            added: Added tokens that are text.
            markers: Texts of the other added tokens; no text may become one.
        """
        self._tokenizers = _variants(tokenizer, TextModel(tokenizer, added, markers))
        self._words = Words(self._tokenizers[0]) if cuts_at_words(tokenizer, added) else None
        self._ids = _renumbering(self._tokenizers[0], added)
        self._openings = frozenset(
            text[:n] for text in (entry["content"] for entry in added) for n in range(1, len(text))
        )
        self._longest = max(map(len, self._openings), default=0)
        self._short = lru_cache(maxsize=16384)(self._encode)
        self.seals = not _strips(tokenizer.get("normalizer"))
        self.seals = self.seals and self._sealing_is_exact()

    def encode(self, text: str, position: TextPosition) -> tuple[int, ...]:
        """The ids of a text that ends here (at a marker, or at the end)."""
        if not text:
            return ()
        encode = self._short if len(text) < SHORT_CHARACTERS else self._encode
        return encode(text, position)

    def count(self, text: str) -> int:
        """Number of tokens of a text."""
        return len(self.encode(text, TextPosition.AFTER_MARKER))

    def seal(self, text: str, position: TextPosition) -> tuple[tuple[int, ...], str]:
        """Split `text`, which may continue, into final ids and the rest.

        Returns:
            The ids, and the text that they do not cover. With ids, the rest is `INSIDE`.
        """
        if not self.seals or not text:
            return (), text
        if self._words is not None and len(text) <= LARGE_CHARACTERS:
            cut = self._words.last_cut(text)
            if cut:
                return self._encode(text[:cut], position), text[cut:]
        settled = self._settled_characters(text)
        encoding = self._encoding(text, position)
        pieces = encoding.word_ids
        index = len(pieces) - 1
        while index >= 0 and _span(encoding, index)[0] >= settled:
            index -= 1
        for _ in range(PENDING_PIECES):
            index = _piece_start(pieces, index) - 1
        index += 1
        while index > 0 and _span(encoding, index - 1)[1] > _span(encoding, index)[0]:
            index = _piece_start(pieces, index - 1)  # the boundary splits a character
        if index <= 0:
            return (), text
        cut = _span(encoding, index)[0]
        return self._numbered(encoding.ids[:index]), text[cut:]

    def _settled_characters(self, text: str) -> int:
        """Characters with final piece boundaries: no trailing space, no part of a token."""
        settled = len(text.rstrip())
        for n in range(min(self._longest, len(text)), 0, -1):
            if text[-n:] in self._openings:
                return min(settled, len(text) - n)
        return settled

    def _encode(self, text: str, position: TextPosition) -> tuple[int, ...]:
        if self._words is None or len(text) > LARGE_CHARACTERS:
            return self._numbered(self._encoding(text, position).ids)
        with _valid(text):
            return self._numbered(self._words.encode(text))

    def _encoding(self, text: str, position: TextPosition) -> Encoding:
        tokenizer = self._tokenizers[position]
        with _valid(text):
            if len(text) <= LARGE_CHARACTERS:
                return tokenizer.encode(text, add_special_tokens=False)
            return tokenizer.encode_batch([text], add_special_tokens=False)[0]  # releases the GIL

    def _numbered(self, ids: list[int]) -> tuple[int, ...]:
        renumber = self._ids
        return tuple([renumber.get(i, i) for i in ids]) if renumber else tuple(ids)

    def _sealing_is_exact(self) -> bool:
        """Test the rule on a text with all difficult cases, cut at each position."""
        places = {
            id(self._tokenizers[p]): p for p in (TextPosition.AFTER_MARKER, TextPosition.START)
        }
        for position in places.values():
            full = self._encode(SAMPLE, position)
            for cut in range(1, len(SAMPLE)):
                ids, rest = self.seal(SAMPLE[:cut], position)
                rest_position = TextPosition.INSIDE if ids else position
                if ids + self._encode(rest + SAMPLE[cut:], rest_position) != full:
                    return False
        return True


@contextmanager
def _valid(text: str) -> Iterator[None]:
    """Refuse text that is no Unicode, in words of its own."""
    try:
        yield
    except (TypeError, UnicodeEncodeError):
        if not has_lone_surrogate(text):
            raise
        raise RequestRejected(
            "a text of the prompt holds half of a surrogate pair",
            hint="Give valid Unicode text",
        ) from None


def _piece_start(pieces: Sequence[int | None], index: int) -> int:
    """First token of the piece of token `index`."""
    while index > 0 and pieces[index - 1] == pieces[index]:
        index -= 1
    return index


def _span(encoding: Encoding, index: int) -> tuple[int, int]:
    """First character of a token and the one after it; the bytes of a character share it."""
    span: tuple[int, int] | None = encoding.token_to_chars(index)
    return span or (0, 0)


def _variants(tokenizer: dict[str, Any], model: TextModel) -> tuple[Tokenizer, ...]:
    """One tokenizer a position; equal ones are shared."""
    by_text: dict[str, Tokenizer] = {}
    found: list[Tokenizer] = []
    for position in TextPosition:
        parts = [
            _at_position(tokenizer.get(name), position) for name in ("pre_tokenizer", "normalizer")
        ]
        key = json.dumps(parts, sort_keys=True)
        if key not in by_text:
            by_text[key] = model.tokenizer(*parts)
        found.append(by_text[key])
    return tuple(found)


def _at_position(part: Any, position: TextPosition) -> Any:
    """A normalizer or pre-tokenizer as it behaves at `position`."""
    if not isinstance(part, dict) or position is TextPosition.START:
        return part
    kind = part.get("type")
    if kind == "Sequence":
        key = "normalizers" if "normalizers" in part else "pretokenizers"
        steps = [_at_position(step, position) for step in part[key]]
        return {**part, key: [step for step in steps if step is not None]}
    if kind == "Metaspace":
        first_only = part.get("prepend_scheme") == "first"
        if position is TextPosition.INSIDE or first_only:
            return {**part, "prepend_scheme": "never", "add_prefix_space": False}
    elif position is TextPosition.INSIDE and kind == "Prepend":
        return None
    elif position is TextPosition.INSIDE and kind == "ByteLevel":
        return {**part, "add_prefix_space": False}
    return part


def _strips(normalizer: Any) -> bool:
    """Whether a normalizer strips whitespace at the ends, which parts do not know."""
    if not isinstance(normalizer, dict):
        return False
    if normalizer.get("type") == "Sequence":
        return any(map(_strips, normalizer.get("normalizers", ())))
    return normalizer.get("type") == "Strip"


def _renumbering(tokenizer: Tokenizer, added: list[dict[str, Any]]) -> dict[int, int]:
    """Real id by the id that a text token got when loaded without the markers."""
    pairs = ((tokenizer.token_to_id(entry["content"]), entry["id"]) for entry in added)
    return {given: real for given, real in pairs if given is not None and given != real}

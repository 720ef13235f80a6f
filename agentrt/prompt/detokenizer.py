"""Incremental detokenization: token ids to text, a few at a time, never splitting a character."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence


class Detokenizer:
    r"""The text of one growing sequence of ids (streaming).

    Example:
        >>> d = Detokenizer([b"\xc3", b"\xa9", b"!"])
        >>> d.feed_ids([0]), d.feed_ids([1, 2]), d.flush()
        ('', 'é!', '')
    """

    __slots__ = ("_decode", "_texts")

    def __init__(self, texts: Sequence[bytes]) -> None:
        """Set the bytes of each id; ids beyond them have none."""
        self._texts = texts
        self._decode = codecs.getincrementaldecoder("utf-8")("replace")

    def feed_ids(self, ids: Iterable[int]) -> str:
        """Append ids; returns the text that later ids cannot change."""
        texts = self._texts
        size = len(texts)
        return self._decode.decode(b"".join([texts[i] for i in ids if 0 <= i < size]))

    def flush(self) -> str:
        """The rest: an unfinished character becomes U+FFFD."""
        return self._decode.decode(b"", final=True)

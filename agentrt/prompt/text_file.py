"""A text file as token ids, read and tokenized piece by piece: memory holds a block of it."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from agentrt.base.errors import UsageError
from agentrt.prompt.text_encoder import TextEncoder, TextPosition

_READ_BYTES = 1 << 16
_MOST_PENDING = 1 << 17
"""Characters after which a text is cut where its tokenizer would not cut it."""


def file_ids(
    texts: TextEncoder, path: Path, position: TextPosition, *, hint: str
) -> Iterator[tuple[int, ...]]:
    """The ids of a file in parts, each as far as the text behind a block cannot change them.

    Joined they are those of the whole text, and no special token comes from the text itself.

    Args:
        texts: Encoder of the model.
        path: The file, in UTF-8.
        position: Position of its beginning.
        hint: Remedy for an error.

    Raises:
        UsageError: The file cannot be read, or is not UTF-8.
    """
    rest = ""
    for block in file_blocks(path, hint=hint):
        ids, rest = texts.seal(rest + block, position)
        if not ids and len(rest) > _MOST_PENDING:
            ids, rest = texts.encode(rest, position), ""
        if ids:
            position = TextPosition.INSIDE
            yield ids
    if rest:
        yield texts.encode(rest, position)


def file_blocks(path: Path, *, hint: str) -> Iterator[str]:
    """The text of a file, in blocks.

    Raises:
        UsageError: The file cannot be read, or is not UTF-8.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with path.open("rb") as file:
            while block := file.read(_READ_BYTES):
                yield decoder.decode(block)
        yield decoder.decode(b"", final=True)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{path} cannot be read: {reason}", hint=hint) from None


def lines_of(blocks: Iterable[str]) -> Iterator[str]:
    """The lines of a text that comes in blocks, without their ends."""
    rest = ""
    for block in blocks:
        *lines, rest = (rest + block).split("\n")
        yield from lines
    if rest:
        yield rest


def pieces_of(ids: Iterable[Sequence[int]], length: int) -> Iterator[tuple[int, ...]]:
    """Consecutive pieces of a length, cut from ids that come in parts; the last may be shorter.

    Example:
        >>> list(pieces_of([(1, 2), (3, 4, 5)], 3))
        [(1, 2, 3), (4, 5)]
    """
    waiting: list[int] = []
    for part in ids:
        waiting += part
        whole = len(waiting) - len(waiting) % length
        for start in range(0, whole, length):
            yield tuple(waiting[start : start + length])
        del waiting[:whole]
    if waiting:
        yield tuple(waiting)

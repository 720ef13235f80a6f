"""Splitting long texts into parts that fit a prompt, at paragraphs, sentences and words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from anyio import to_thread

from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.program.call_site import call_site
from agentrt.program.scope import current_scope

SURELY_LONG = 64
"""Characters a token above which a text is taken as too long without being counted."""

THREAD_CHARACTERS = 16_384
"""Length of a text that is split in a worker thread, so that it holds up no event loop."""

_BREAKS = (
    re.compile(r"(?<=\n)[ \t]*\n+"),  # paragraphs
    re.compile(r"\n+"),
    re.compile(r"(?<=[.!?\u2026])[\"'\u201d\u2019)\]]*\s+|(?<=[\u3002\uff01\uff1f])"),  # sentences
    re.compile(r"(?<=[,;:])\s+"),
    re.compile(r"\s+"),
)
"""Ends of pieces, the largest pieces first; a piece keeps the break behind it."""

Count = Callable[[str], int]
_CLAUSES = 3
"""Index of the first break inside a sentence."""


@record
class SplitPiece:
    """A part of a text that is not cut.

    Attributes:
        text: The text.
        size: Tokens, or the unit of the count.
        cuts: Whether a sentence begins with it that has to be cut.
    """

    text: str
    size: int
    cuts: bool = False


async def split(
    text: str,
    size: int,
    /,
    *,
    overlap: int = 0,
    count: Count | None = None,
    model: str = "default",
) -> list[str]:
    """Parts of a text, each of at most `size` tokens as the engine counts them.

    Use it to map a program over a document that no prompt holds. A part ends at the end of a
    paragraph if that fits, else of a line, a sentence, a clause or a word; a part that is half full
    ends before a sentence that has to be cut. Without `overlap` the parts joined are the text.

    Example:
        >>> import anyio
        >>> from agentrt import split
        >>> async def main() -> list[str]:
        ...     text = "The Nile is long. It floods. The Po is short."
        ...     return await split(text, 6, overlap=2, count=lambda part: len(part.split()))
        >>> anyio.run(main)
        ['The Nile is long. It floods. ', 'It floods. The Po is short.']

    Args:
        text: The text.
        size: Most tokens of a part.
        overlap: Most tokens with which a part repeats the end of the one before it, in whole
            sentences or clauses if they fit, else words.
        count: Size of a text, such as `len` for characters; None counts tokens.
        model: Role of the engine whose tokens are counted.

    Returns:
        The parts in order; [] for an empty text.

    Raises:
        NoRun: Tokens are to be counted, and no run is active.
        UsageError: A size is out of range or too small for one character, no engine has the role,
            or its tokenizer is not known here.
    """
    if size < 1 or not 0 <= overlap < size:
        raise UsageError(
            f"size={size}, overlap={overlap} are out of range",
            hint="Give a size of 1 or more, and an overlap below it",
            where=call_site(),
        )
    if count is None:
        count = current_scope("split").run.token_counter(model)
    parts = partial(split_text, text, size, overlap, count)
    return await to_thread.run_sync(parts) if len(text) > THREAD_CHARACTERS else parts()


def split_text(text: str, size: int, overlap: int, count: Count) -> list[str]:
    """Parts of a text, see `split`.

    Raises:
        UsageError: A character is larger than a part.
    """
    pieces = _pieces(text, size, count, 0)
    put_back: list[SplitPiece] = []
    parts: list[str] = []
    held: list[SplitPiece] = []  # of the part to come
    has_new = False  # whether it is more than the end of the part before
    while (piece := put_back.pop() if put_back else next(pieces, None)) or held:
        if piece is not None:
            held_size = sum(one.size for one in held)
            ends_well = has_new and piece.cuts and 2 * held_size >= size
            if not ends_well:
                held.append(piece)
                if held_size + piece.size <= size:
                    has_new = True
                    continue
                joined = _joined(held)
                if (tokens := count(joined)) <= size:  # pieces may take more alone than joined
                    held, has_new = [SplitPiece(joined, tokens)], True
                    continue
                held.pop()
            put_back.append(piece)
        while len(held) > 1 and count(_joined(held)) > size:
            put_back.append(held.pop())
        parts.append(_joined(held))
        held, has_new = [], False
        if overlap and put_back:
            following = put_back[-1]
            tail = _tail(parts[-1], min(overlap, size - following.size), count)
            if tail and count(tail + following.text) <= size:
                held = [SplitPiece(tail, count(tail))]
    return parts


def _joined(pieces: list[SplitPiece]) -> str:
    return "".join(piece.text for piece in pieces)


def _pieces(
    text: str, size: int, count: Count, level: int, *, cuts: bool = False
) -> Iterator[SplitPiece]:
    """The largest pieces of a text that fit a part."""
    tokens = size + 1 if len(text) > SURELY_LONG * size else count(text)
    if tokens <= size:
        if text:
            yield SplitPiece(text, tokens, cuts)
        return
    if level < len(_BREAKS):
        for at, piece in enumerate(_cut(text, _BREAKS[level])):
            begins = at == 0 and (cuts or level == _CLAUSES)
            yield from _pieces(piece, size, count, level + 1, cuts=begins)
        return
    if len(text) == 1:
        raise UsageError(
            f"size={size} is too small: {text!r} alone takes {count(text)}", hint="Give more"
        )
    middle = len(text) // 2
    yield from _pieces(text[:middle], size, count, level, cuts=cuts)
    yield from _pieces(text[middle:], size, count, level)


def _cut(text: str, pattern: re.Pattern[str]) -> Iterator[str]:
    """The text cut behind each break."""
    start = 0
    for found in pattern.finditer(text):
        if found.end() > start:
            yield text[start : found.end()]
            start = found.end()
    if start < len(text):
        yield text[start:]


def _tail(part: str, most: int, count: Count) -> str:
    """The end of a part with at most so many tokens: sentences, else clauses, else words."""
    if most < 1:
        return ""
    for pattern in _BREAKS[2:]:
        pieces = list(_cut(part, pattern))
        tail = ""
        while len(pieces) > 1 and count(pieces[-1] + tail) <= most:
            tail = pieces.pop() + tail
        if tail.strip():
            return tail
    return ""

"""Prompt parts: how the next prompt of a run is put together from what is known before it.

A prompt continues the beginning of an earlier one of its run, or begins anew. Behind that each part
is the start or the end of a message, a text that the program writes every time, or a value of the
run: an argument of the program, or the result of an earlier call, whole or a part of it.

Pure: plain data goes in, plain data comes out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

from agentrt.base.record import record
from agentrt.base.segments import Close, Open, Role, Segment, Text

MIN_PIECE = 3
"""Characters of the shortest piece of a text that is no match by chance."""

MAX_PARTS = 64
"""Parts of one prompt that are told apart."""

Origin = tuple[str | int, ...]
"""Where a value comes from: `("argument", name, key, ...)` or `("result", call site, key, ...)`."""

Part = tuple[Any, ...]
"""`("open", role)`, `("close",)`, `("text", hash)`, `("value", *origin)`, or `("end",)` behind the
last one of a prompt."""


@record
class EarlierPrompt:
    """A prompt of the same run.

    Attributes:
        site: Call site of its generation.
        segments: Segments of the prompt, and of the answer once that has ended.
    """

    site: str
    segments: tuple[Segment, ...]


@record
class KnownParts:
    """Parts of which a prompt may consist, as far as they are known at some instant.

    Attributes:
        prompts: Earlier prompts of the run, the latest first.
        values: Texts of values by origin.
        texts: Texts that the program writes every time, by hash.
        public: Hashes of those that stand in its source.
    """

    prompts: tuple[EarlierPrompt, ...]
    values: Mapping[Origin, str]
    texts: Mapping[str, str]
    public: frozenset[str] = frozenset()


def text_hash(text: str) -> str:
    """Name of a text that the program writes every time."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=9).hexdigest()


def base_of(segments: Sequence[Segment], known: KnownParts) -> tuple[str, int, int]:
    """The earlier prompt that a prompt continues.

    Returns:
        Its call site, the number of segments that it has beyond the common ones, and the number of
        common ones; ("", 0, 0) without any.
    """
    best = ("", 0, 0)
    for earlier in known.prompts:
        same = 0
        for one, other in zip(earlier.segments, segments, strict=False):
            if one is not other and one != other:
                break
            same += 1
        if same > best[2]:
            best = (earlier.site, len(earlier.segments) - same, same)
    return best


def parts_of(segments: Iterable[Segment], known: KnownParts) -> list[list[Part]]:
    """The parts of a prompt, each with all that it may be; they end where one is nothing known."""
    found: list[list[Part]] = []
    for segment in segments:
        match segment:
            case Open(role):
                found.append([("open", role)])
            case Close():
                found.append([("close",)])
            case Text(text):
                pieces = _pieces_of(text, known)
                found += pieces or [[]]
                if not pieces or [] in pieces:
                    return found[:MAX_PARTS]
            case _:
                return found[:MAX_PARTS]
        if len(found) >= MAX_PARTS:
            return found[:MAX_PARTS]
    return [*found, [("end",)]]


def segment_of(part: Part, known: KnownParts) -> Segment | None:
    """The segment of a part; None if its text is not known."""
    match part[0]:
        case "open":
            return Open(part[1])
        case "close":
            return Close()
        case "text":
            text = known.texts.get(part[1])
        case _:
            text = known.values.get(part[1:])
    return None if text is None else Text(text)


def is_part_name(part: Part) -> bool:
    """Whether stored data name a part."""
    match part:
        case ("open", str()) | ("close",) | ("text", str()) | ("end",):
            return part[0] != "open" or part[1] in get_args(Role)
        case ("value", "argument" | "result", str(), *path):
            return all(isinstance(key, str) or type(key) is int for key in path)
        case _:
            return False


def begins_with(whole: Sequence[Segment], beginning: Sequence[Segment]) -> bool:
    """Whether a prompt begins with some segments, wherever its texts are cut."""
    ours, theirs = _joined(beginning), _joined(whole)
    if len(ours) > len(theirs):
        return False
    if not ours:
        return True
    *before, last = ours
    other = theirs[len(before)]
    if list(theirs[: len(before)]) != before:
        return False
    if isinstance(last, Text) and isinstance(other, Text):
        return other.text.startswith(last.text)
    return last == other


def _joined(segments: Iterable[Segment]) -> list[Segment]:
    """The segments with neighbouring texts as one."""
    joined: list[Segment] = []
    for segment in segments:
        if isinstance(segment, Text) and joined and isinstance(joined[-1], Text):
            joined[-1] = Text(joined[-1].text + segment.text)
        else:
            joined.append(segment)
    return joined


def _pieces_of(text: str, known: KnownParts) -> list[list[Part]]:
    """A text as known pieces in a row; the last one is [] if the rest is not known."""
    pieces: list[list[Part]] = []
    at = 0
    while at < len(text) and len(pieces) < MAX_PARTS:
        length, parts = _longest_at(text, at, known)
        pieces.append(parts)
        if not parts:
            break
        at += length
    return pieces


def _longest_at(text: str, at: int, known: KnownParts) -> tuple[int, list[Part]]:
    """The longest known pieces that a text has at a position, and their length."""
    longest, parts = 0, list[Part]()
    for part, piece in _candidates(known):
        is_whole = at == 0 and len(piece) == len(text)
        if len(piece) < longest or not (is_whole or _is_telling(part, piece)):
            continue
        if text.startswith(piece, at):
            if len(piece) > longest:
                longest, parts = len(piece), []
            parts.append(part)
    return longest, parts


def _candidates(known: KnownParts) -> Iterator[tuple[Part, str]]:
    for name, text in known.texts.items():
        yield ("text", name), text
    for origin, text in known.values.items():
        yield ("value", *origin), text


def _is_telling(part: Part, piece: str) -> bool:
    """Whether a piece is no match by chance: a long one, or punctuation that the program writes."""
    return len(piece) >= MIN_PIECE or (part[0] == "text" and bool(piece) and not piece.isalnum())

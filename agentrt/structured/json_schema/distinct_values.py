"""Values of items with several texts each: the texts that lead to the value of a key."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from agentrt.structured.json_schema.value_key import NumberKey

_BLANK = ord(" ")
_NUMBER = re.compile(r"(-?)([0-9]*)(\.?)([0-9]*)([eE]?)([+-]?)([0-9]*)")


_quoted = json.JSONEncoder(ensure_ascii=False).encode


class _Fields(NamedTuple):
    """The fields of an object that are not written yet, of which one comes next or a comma."""

    left: tuple[tuple[str, Any], ...]
    is_next: bool


class _Items(NamedTuple):
    """The items of an array that are not written yet, of which one comes next or a comma."""

    left: tuple[Any, ...]
    is_next: bool


class _Value(NamedTuple):
    """A value of which no text is written yet."""

    value: Any


class _Begun(NamedTuple):
    """A number by the text that is written of it."""

    number: str
    text: str


Part = bytes | _Fields | _Items | _Value | _Begun
Way = tuple[Part, ...]
"""The rest of one text, the next part last; empty if the text is complete."""


def ways_to(key: bytes, begun: bytes) -> list[Way]:
    """The ways in which a text may go on to become the value of a key."""
    ways = _start(key)
    for byte in begun:
        if not ways:
            break
        ways = after_byte(ways, byte)
    return ways


@functools.lru_cache(maxsize=4096)
def _start(key: bytes) -> list[Way]:
    return [(_Value(json.loads(key, parse_int=NumberKey, parse_float=NumberKey)),)]


def after_byte(ways: Iterable[Way], byte: int) -> list[Way]:
    """The ways that are left after a byte."""
    return [after for way in ways for after in _after(way, byte)]


def next_bytes(ways: Iterable[Way]) -> set[int]:
    """The bytes by which some way may go on."""
    return {byte for way in ways for byte in _first_bytes(way)}


def is_complete(ways: Iterable[Way]) -> bool:
    """Whether a text may be complete, a number at its end included."""
    return any(not way or (len(way) == 1 and isinstance(way[0], _Begun)) for way in ways)


def _after(way: Way, byte: int) -> Iterator[Way]:
    if not way:
        return
    part, rest = way[-1], way[:-1]
    if isinstance(part, _Begun):
        longer = part.text + chr(byte)
        if _may_equal(longer, part.number):
            yield (*rest, _Begun(part.number, longer))
        yield from _after(rest, byte)
        return
    for opened in _opened(part):
        if isinstance(opened[-1], _Begun):
            yield from _after((*rest, *opened), byte)
        elif isinstance(opened[-1], bytes) and opened[-1][0] == byte:
            left = opened[-1][1:]
            yield (*rest, *opened[:-1], left) if left else (*rest, *opened[:-1])
    if byte == _BLANK and not isinstance(part, bytes):
        yield way


def _first_bytes(way: Way) -> Iterator[int]:
    if not way:
        return
    part, rest = way[-1], way[:-1]
    if isinstance(part, _Begun):
        yield from b"-+.eE0123456789"
        yield from _first_bytes(rest)
        return
    for opened in _opened(part):
        if isinstance(opened[-1], _Begun):
            yield from b"-0123456789"
        elif isinstance(opened[-1], bytes):
            yield opened[-1][0]
    if not isinstance(part, bytes):
        yield _BLANK


def _opened(part: Part) -> Iterator[Way]:
    """The ways to write a part, each with the text that comes first."""
    match part:
        case bytes():
            yield (part,)
        case _Fields(()):
            yield (b"}",)
        case _Items(()):
            yield (b"]",)
        case _Fields(is_next=False) | _Items(is_next=False):
            yield part._replace(is_next=True), b","
        case _Fields(left):
            for at, (name, value) in enumerate(left):
                others = _Fields((*left[:at], *left[at + 1 :]), is_next=False)
                yield others, _Value(value), _quoted(name).encode() + b":"
        case _Items(left):
            yield _Items(left[1:], is_next=False), *_written(left[0])
        case _Value(value):
            yield _written(value)


def _written(value: Any) -> Way:
    match value:
        case NumberKey():
            return (_Begun(value, ""),)
        case dict():
            return _Fields(tuple(value.items()), is_next=True), b"{"
        case list():
            return _Items(tuple(value), is_next=True), b"["
        case _:
            return (_quoted(value).encode(),)


def _may_equal(text: str, number: str) -> bool:
    """Whether a number that begins with a text may be equal to a number in normal form."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return False
    sign, whole, _, fraction, mark, exponent_sign, exponent = found.groups()
    significand, power = number.removeprefix("-").split("e")
    if significand == "0":
        return not (whole + fraction).strip("0")
    if (sign == "-") != number.startswith("-"):
        return False
    written = (whole + fraction).lstrip("0")
    if not mark:
        return significand.ljust(len(written), "0").startswith(written)
    if written.rstrip("0") != significand:
        return False
    needed = int(power) + len(significand) - len(written) + len(fraction)
    if exponent_sign or exponent:
        has_sign = needed == 0 or (exponent_sign == "-") == (needed < 0)
        return has_sign and str(abs(needed)).startswith(exponent.lstrip("0"))
    return True

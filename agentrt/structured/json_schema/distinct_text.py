"""The open containers of compact JSON while it is written, and the items of those held distinct."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from agentrt.base.record import record
from agentrt.structured.json_schema.distinct import SchemaPlace

_INSIDE = re.compile(rb'["\\]')
_OUTSIDE = re.compile(rb'["\[\]{},:]')
_OUTSIDE_HELD = re.compile(rb'["\[\]{},:0]')


@record
class WrittenItems:
    """The texts of items, in sets that those before and after one item share.

    Attributes:
        sets: Disjoint sets, each at least twice as large as the next.
    """

    sets: tuple[frozenset[bytes], ...] = ()

    def __contains__(self, item: object) -> bool:
        return any(item in one for one in self.sets)

    def beginning_with(self, begun: bytes) -> Iterator[bytes]:
        """The items that begin so."""
        return (item for one in self.sets for item in one if item.startswith(begun))

    def adding(self, item: bytes) -> WrittenItems:
        """These and one more."""
        last, sets = frozenset((item,)), self.sets
        while sets and len(sets[-1]) < 2 * len(last):
            sets, last = sets[:-1], sets[-1] | last
        return WrittenItems((*sets, last))


class OpenContainer(NamedTuple):
    """An array or object that is being written.

    Attributes:
        is_array: Whether it is an array.
        place: Place in the schema; None if nothing distinct is below.
        begins: Offset in the text of its present item, or of its present key.
        items_before: Number of items before the present one.
        written: Texts of the items before the present one; None if they need not be distinct.
        value: SchemaPlace of the present item or value.
    """

    is_array: bool
    place: SchemaPlace | None
    begins: int
    items_before: int
    written: WrittenItems | None
    value: SchemaPlace | None

    def begun(self, text: bytes | bytearray) -> bytes:
        """The present item as far as it is written; `text` is the whole text."""
        return bytes(text[self.begins :]).lstrip()

    def written_like(self, begun: bytes) -> Iterator[bytes]:
        """The items before the present one that begin so; none if they need not be distinct."""
        return iter(()) if self.written is None else self.written.beginning_with(begun)


class DocumentPosition(NamedTuple):
    """How far a text has come.

    Attributes:
        containers: The open containers, the whole document first.
        in_string: Whether a string is open.
        is_escaped: Whether the next character is escaped.
    """

    containers: tuple[OpenContainer, ...]
    in_string: bool = False
    is_escaped: bool = False

    @classmethod
    def at_start(cls, place: SchemaPlace | None) -> DocumentPosition:
        """The position before a document, which is at `place`."""
        return cls((OpenContainer(False, None, 0, 0, None, place),))

    def held(self) -> list[OpenContainer]:
        """The open arrays of distinct items."""
        return [one for one in self.containers if one.written is not None]


def follow(at: DocumentPosition, text: bytes | bytearray, more: bytes) -> DocumentPosition | None:
    """The position after more text; None if that repeats an item, or writes 0 as -0.

    Args:
        at: The position after `text`.
        text: The text so far.
        more: Text that the grammar allows next.
    """
    containers, in_string, is_escaped = at
    offset, index = len(text), 0
    pattern = _marks_in(containers)

    def piece(begins: int, ends: int) -> bytes:
        if begins >= offset:
            return more[begins - offset : ends - offset]
        return bytes(text[begins:ends]) + more[: max(0, ends - offset)]

    while index < len(more):
        if is_escaped:
            is_escaped, index = False, index + 1
            continue
        found = (_INSIDE if in_string else pattern).search(more, index)
        if found is None:
            break
        index, mark = found.end(), found[0]
        here = offset + index
        if mark == b'"':
            in_string = not in_string
        elif mark == b"\\":
            is_escaped = True
        elif mark == b"0":
            if piece(here - 2, here - 1) == b"-":
                return None
        elif mark in (b"[", b"{"):
            containers = (*containers, _opened(containers[-1].value, here, is_array=mark == b"["))
            pattern = _marks_in(containers)
        else:
            top = containers[-1]
            ended = piece(top.begins, here - 1).strip()
            if mark == b":":
                value = None if top.place is None else top.place.field(ended)
                containers = (*containers[:-1], top._replace(value=value))
                continue
            if top.written is not None and ended in top.written:
                return None
            containers = containers[:-1]
            if mark == b",":
                containers = (*containers, _next_item(top, ended, here))
            pattern = _marks_in(containers)
    return DocumentPosition(containers, in_string, is_escaped)


def _marks_in(containers: tuple[OpenContainer, ...]) -> re.Pattern[bytes]:
    """The marks outside of strings, with 0 where a number could be written as -0."""
    held = next((one for one in reversed(containers) if one.written is not None), None)
    if held is None or (held.place is not None and held.place.listed is not None):
        return _OUTSIDE
    return _OUTSIDE_HELD


def _opened(place: SchemaPlace | None, begins: int, *, is_array: bool) -> OpenContainer:
    if not is_array or place is None:
        return OpenContainer(is_array, place, begins, 0, None, None)
    written = WrittenItems() if place.is_distinct else None
    return OpenContainer(True, place, begins, 0, written, place.item(0))


def _next_item(top: OpenContainer, ended: bytes, begins: int) -> OpenContainer:
    index = top.items_before + 1
    value = top.place.item(index) if top.is_array and top.place is not None else None
    written = None if top.written is None else top.written.adding(ended)
    return OpenContainer(top.is_array, top.place, begins, index, written, value)

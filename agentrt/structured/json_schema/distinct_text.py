"""The open containers of compact JSON while it is written, and the items of those held distinct."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from agentrt.base.record import record
from agentrt.structured.json_schema.distinct import SchemaPlace
from agentrt.structured.json_schema.distinct_values import Way, ways_to
from agentrt.structured.json_schema.value_key import key_of

_INSIDE = re.compile(rb'["\\]')
_OUTSIDE = re.compile(rb'["\[\]{},:]')

NEGATIVE_ZERO = b"-0"


@record
class WrittenItems:
    """The items of an array, by text or key, in sets that those before and after one item share.

    Attributes:
        sets: Disjoint sets, each at least twice as large as the next.
    """

    sets: tuple[frozenset[bytes], ...] = ()

    def __contains__(self, item: object) -> bool:
        return any(item in one for one in self.sets)

    def __iter__(self) -> Iterator[bytes]:
        return (item for one in self.sets for item in one)

    def beginning_with(self, begun: bytes) -> Iterator[bytes]:
        """The items that begin so."""
        return (item for item in self if item.startswith(begun))

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
        written: Items before the present one; None if they need not be distinct.
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

    @property
    def is_by_value(self) -> bool:
        """Whether equal items may have different texts."""
        return self.place is not None and self.place.is_by_value

    def may_repeat(self, begun: bytes) -> bool:
        """Whether an item that begins so may become one before it that it must not repeat."""
        if self.written is None:
            return False
        if self.is_by_value:
            return any(ways_to(item, begun) for item in self.written)
        return any(True for _ in self.written.beginning_with(begun))

    def ways_to_repeat(self, begun: bytes) -> list[Way]:
        """The ways in which an item that begins so becomes one before it."""
        items = () if self.written is None else self.written
        return [way for item in items for way in ways_to(item, begun)]

    def repeats(self, item: bytes) -> bool:
        """Whether a text is that of an item before the present one."""
        return self.written is not None and self._known(item) in self.written

    def adding(self, item: bytes) -> WrittenItems | None:
        """The items with the present one, which ends; None if they need not be distinct."""
        known = self._known(item)
        if self.written is None or known is None:
            return self.written
        return self.written.adding(known)

    def _known(self, item: bytes) -> bytes | None:
        """An item as it is kept; None if it has no key, and equals none before it."""
        return key_of(item) if self.is_by_value else item


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

    def may_be_negative_zero(self, text: bytes | bytearray) -> bool:
        """Whether the number at the end of a text is 0 as -0, unless a fraction follows."""
        if self.in_string or not text.endswith(NEGATIVE_ZERO):
            return False
        return _have_one_zero(self.containers)


def follow(at: DocumentPosition, text: bytes | bytearray, more: bytes) -> DocumentPosition | None:
    """The position after more text; None if that repeats an item, or writes 0 as -0.

    Args:
        at: The position after `text`.
        text: The text so far.
        more: Text that comes next. If it closes what is not open, there is no position either.
    """
    containers, in_string, is_escaped = at
    offset, index = len(text), 0

    def piece(begins: int, ends: int) -> bytes:
        if begins >= offset:
            return more[begins - offset : ends - offset]
        return bytes(text[begins:ends]) + more[: max(0, ends - offset)]

    while index < len(more):
        if is_escaped:
            is_escaped, index = False, index + 1
            continue
        found = (_INSIDE if in_string else _OUTSIDE).search(more, index)
        if found is None:
            break
        index, mark = found.end(), found[0]
        here = offset + index
        if mark == b'"':
            in_string = not in_string
        elif mark == b"\\":
            is_escaped = True
        elif mark in (b"[", b"{"):
            containers = (*containers, _opened(containers[-1].value, here, is_array=mark == b"["))
        else:
            top = containers[-1]
            ended = piece(top.begins, here - 1).strip()
            if mark == b":":
                value = None if top.place is None else top.place.field(ended)
                containers = (*containers[:-1], top._replace(value=value))
                continue
            if top.repeats(ended):
                return None
            if ended.endswith(NEGATIVE_ZERO) and _have_one_zero(containers):
                return None
            containers = containers[:-1]
            if not containers and mark != b",":
                return None
            if mark == b",":
                containers = (*containers, _next_item(top, ended, here))
    return DocumentPosition(containers, in_string, is_escaped)


def _have_one_zero(containers: tuple[OpenContainer, ...]) -> bool:
    """Whether 0 may not be written as -0, since some items are told apart by their texts."""
    return any(one.written is not None and not one.is_by_value for one in containers)


def _opened(place: SchemaPlace | None, begins: int, *, is_array: bool) -> OpenContainer:
    if not is_array or place is None:
        return OpenContainer(is_array, place, begins, 0, None, None)
    written = WrittenItems() if place.is_distinct else None
    return OpenContainer(True, place, begins, 0, written, place.item(0))


def _next_item(top: OpenContainer, ended: bytes, begins: int) -> OpenContainer:
    index = top.items_before + 1
    value = top.place.item(index) if top.is_array and top.place is not None else None
    return OpenContainer(top.is_array, top.place, begins, index, top.adding(ended), value)

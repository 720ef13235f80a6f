"""Rendering of JSON that is still being written: the certain beginning of its text in a prompt.

A prompt writes values in a style of its own, with defaults, dates and numbers as they are read. The
rendering reads each character once and gives what stands in the prompt whatever follows.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Generator, Iterator

from agentrt.base.json_style import SEPARATORS, JsonStyle, line_break, styled_json
from agentrt.structured.json_scan import ValueScanner
from agentrt.structured.rendering.places import (
    NOT_WRITTEN,
    Entries,
    Items,
    Member,
    Members,
    Place,
    TextPlace,
    Whole,
    chosen,
)

_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r'|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}|["\\/bfnrt])'
)
_KEY = re.compile(r'"(?:[^"\\]|\\.)*"')
_ESCAPE_LENGTH = 12
_SPACE = " \t\n\r"
MAX_DEPTH = 64
"""Containers inside one another; what is deeper is read at its end."""


class _Unread(Exception):
    """The text is not what the type allows: nothing more of it is certain."""


class JsonRendering:
    """The text of one value in a prompt, as far as it is certain.

    Example:
        >>> from agentrt.structured import JsonRendering, json_schema_shape, output_place
        >>> shape = json_schema_shape({"type": "object"})
        >>> rendering = JsonRendering(output_place(shape.parse), "spaced")
        >>> rendering.feed('{"name":"Ad'), rendering.feed('a","age":3'), rendering.feed("6}")
        ('{"name": "Ad', 'a", "age": ', '36}')

    Args:
        place: Place of the value.
        style: Style of the prompt.
    """

    def __init__(self, place: Place, style: JsonStyle) -> None:
        self._style: JsonStyle = style
        self._separators = SEPARATORS[style]
        self._rest = ""  # what is not read yet
        self._out: list[str] = []
        self._reading: Iterator[None] | None = self._value(place, 0)

    def feed(self, text: str) -> str:
        """Read more of the JSON; gives what has become certain."""
        self._rest += text
        if self._reading is not None:
            try:
                next(self._reading)
            except Exception:  # readers of an author's types may raise anything
                self._reading = None
        found = "".join(self._out)
        self._out.clear()
        return found

    def _value(self, place: Place, depth: int) -> Iterator[None]:
        yield from self._until_more()
        first = self._rest[0]
        place = chosen(place, first)
        if depth > MAX_DEPTH and not isinstance(place, Whole | TextPlace):
            place = place.whole
        if isinstance(place, TextPlace) and first == '"':
            yield from self._string()
        elif isinstance(place, Whole):
            yield from self._whole(place, depth)
        elif isinstance(place, Items) and first == "[":
            yield from self._items(place, depth)
        elif isinstance(place, Entries | Members) and first == "{":
            yield from self._fields(place, depth)
        else:
            raise _Unread

    def _whole(self, place: Whole, depth: int) -> Iterator[None]:
        scanner, scanned = ValueScanner(), 0
        while (end := scanner.feed(self._rest, scanned)) is None:
            scanned = len(self._rest)
            yield
        text, self._rest = self._rest[:end], self._rest[end:]
        self._out.append(place.rendered(text, self._style, depth))

    def _string(self) -> Iterator[None]:
        self._take('"')
        self._out.append('"')
        while True:
            while not self._rest:
                yield
            if found := _PLAIN.match(self._rest):
                self._out.append(styled_json(found.group())[1:-1])
            elif self._rest[0] == '"':
                self._take('"')
                self._out.append('"')
                return
            else:
                while (found := _ESCAPE.match(self._rest)) is None:
                    if len(self._rest) >= _ESCAPE_LENGTH or self._rest[0] != "\\":
                        raise _Unread
                    yield
                self._out.append(styled_json(_unescaped(found.group()))[1:-1])
            self._rest = self._rest[found.end() :]

    def _items(self, place: Items, depth: int) -> Iterator[None]:
        self._take("[")
        yield from self._until_more()
        if self._rest[0] == "]":
            self._take("]")
            self._out.append("[]")
            return
        self._out.append("[")
        index = 0
        while True:
            self._out.append(line_break(self._style, depth + 1))
            yield from self._value(place.item(index), depth + 1)
            index += 1
            yield from self._until_more()
            if self._rest[0] == "]":
                break
            self._take(",")
            self._out.append(self._separators.item)
        self._take("]")
        self._out.append(line_break(self._style, depth) + "]")

    def _fields(self, place: Entries | Members, depth: int) -> Iterator[None]:
        left = deque(place.members if isinstance(place, Members) else ())
        count = 0
        self._take("{")
        yield from self._until_more()
        is_first = True
        while self._rest[0] != "}":
            if not is_first:
                self._take(",")
            is_first = False
            name = yield from self._key()
            if isinstance(place, Entries):
                value = place.value
            else:
                while left and left[0].key != name:
                    count += self._absent(left.popleft(), count, depth)
                if not left:
                    raise _Unread  # an extra field, or one that stands before another
                member = left.popleft()
                name, value = member.name, member.place
            self._name(name, count, depth)
            count += 1
            yield from self._value(value, depth + 1)
            yield from self._until_more()
        self._take("}")
        while left:
            count += self._absent(left.popleft(), count, depth)
        self._out.append(line_break(self._style, depth) + "}" if count else "{}")

    def _absent(self, member: Member, count: int, depth: int) -> int:
        """Write the default of a field; gives the number of fields written."""
        if member.absent is None:
            raise _Unread
        default = member.absent()
        if default is NOT_WRITTEN:
            return 0
        self._name(member.name, count, depth)
        self._out.append(styled_json(default, self._style, depth + 1))
        return 1

    def _name(self, name: str, count: int, depth: int) -> None:
        """Write the name of a field, behind what stands between it and the one before."""
        between = self._separators.item if count else "{"
        key = styled_json(name) + self._separators.key
        self._out.append(between + line_break(self._style, depth + 1) + key)

    def _key(self) -> Generator[None, None, str]:
        yield from self._until_more()
        while (found := _KEY.match(self._rest)) is None:
            if self._rest[0] != '"':
                raise _Unread
            yield
        self._rest = self._rest[found.end() :]
        yield from self._until_more()
        self._take(":")
        return str(json.loads(found.group()))

    def _until_more(self) -> Iterator[None]:
        """Skip blanks, and wait for a character."""
        while not (rest := self._rest.lstrip(_SPACE)):
            yield
        self._rest = rest

    def _take(self, mark: str) -> None:
        if self._rest[0] != mark:
            raise _Unread
        self._rest = self._rest[1:]


def _unescaped(escape: str) -> str:
    return str(json.loads(f'"{escape}"'))

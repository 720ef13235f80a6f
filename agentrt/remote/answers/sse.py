"""Server-sent events: parses bytes into the `data` of each event (streaming)."""

from __future__ import annotations

import codecs

from agentrt.remote.limits import DEFAULT_LIMITS


class EventTooLong(ValueError):
    """An event is longer than the limit."""


class EventStream:
    """Parser of a byte stream of events; only their `data` is used.

    Args:
        max_event_bytes: Longest event, about: its characters are counted.
    """

    def __init__(self, max_event_bytes: int = DEFAULT_LIMITS.event_bytes) -> None:
        self._max_characters = max_event_bytes
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._line: list[str] = []
        self._data: list[str] = []
        self._open_characters = 0

    def feed_data(self, chunk: bytes) -> list[str]:
        """Data of the events completed by `chunk`.

        Raises:
            EventTooLong: An event passes the limit.
        """
        first, *others = self._decode(chunk).split("\n")
        self._line.append(first)
        self._count(first)
        found: list[str] = []
        for line in others:
            found += self._ended("".join(self._line).removesuffix("\r"))
            self._line = [line]
            self._count(line)
        return found

    def flush(self) -> list[str]:
        """Data of a last event without a blank line after it."""
        line, self._line = "".join(self._line), []
        return [*self._ended(line), *self._ended("")]

    def _ended(self, line: str) -> list[str]:
        """Data of the event that ends with `line`, if it does."""
        if line.startswith("data:"):
            self._data.append(line[5:].removeprefix(" "))
        if line:
            return []
        data, self._data, self._open_characters = self._data, [], 0
        return ["\n".join(data)] if data else []

    def _count(self, text: str) -> None:
        self._open_characters += len(text)
        if self._open_characters > self._max_characters:
            raise EventTooLong(f"an event of more than {self._max_characters} bytes")

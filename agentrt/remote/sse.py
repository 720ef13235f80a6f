"""Server-sent events: parses bytes into the `data` of each event (streaming)."""

from __future__ import annotations

import codecs


class EventStream:
    """Parser of a byte stream of events; only their `data` is used."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""
        self._data: list[str] = []

    def feed_data(self, chunk: bytes) -> list[str]:
        """Data of the events completed by `chunk`."""
        lines = (self._rest + self._decode(chunk)).replace("\r\n", "\n").split("\n")
        self._rest = lines.pop()
        return self._events(lines)

    def flush(self) -> list[str]:
        """Data of a last event without a blank line after it."""
        lines = [self._rest, ""]
        self._rest = ""
        return self._events(lines)

    def _events(self, lines: list[str]) -> list[str]:
        found: list[str] = []
        for line in lines:
            if not line:
                if self._data:
                    found.append("\n".join(self._data))
                self._data = []
            elif line.startswith("data:"):
                self._data.append(line[5:].removeprefix(" "))
        return found

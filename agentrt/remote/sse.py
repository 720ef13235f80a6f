"""Server-sent events: bytes in, the `data` of each event out."""

from __future__ import annotations

import codecs


class EventStream:
    """Cuts a byte stream into events; only their `data` counts here."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""
        self._data: list[str] = []

    def push(self, chunk: bytes) -> list[str]:
        """The data of every event that `chunk` completes."""
        lines = (self._rest + self._decode(chunk)).replace("\r\n", "\n").split("\n")
        self._rest = lines.pop()
        return self._events(lines)

    def flush(self) -> list[str]:
        """The data of a last event that no blank line ended."""
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

"""Finding the end of a JSON value while its text is still arriving. Each character is fed once."""

from __future__ import annotations

import re
from dataclasses import dataclass

_IN_STRING = re.compile(r'["\\]')
_STRUCTURE = re.compile(r'["{}\[\]]')
_AFTER_SCALAR = re.compile(r"[,\]}\s]")
_SPACE = " \t\n\r"


@dataclass(slots=True, eq=False)
class ValueScanner:
    """Finds the end of one JSON value.

    Objects, arrays and strings end at their closing character; numbers and words before the
    next character.

    Attributes:
        started: Whether the value's first character was seen.
        in_string: Whether the text so far ends inside of a string.
    """

    started: bool = False
    in_string: bool = False
    _depth: int = 0
    _escaped: bool = False
    _scalar: bool = False

    def feed(self, text: str, start: int) -> int | None:
        """Scan `text[start:]`.

        The first call must begin at the value's first character.

        Returns:
            Index after the value, or None if it continues.
        """
        at = start
        if not self.started and at < len(text):
            self.started = True
            self._scalar = text[at] not in '{["'
        if self._scalar:
            end = _AFTER_SCALAR.search(text, at)
            return end.start() if end else None
        while at < len(text):
            if self._escaped:
                self._escaped = False
                at += 1
                continue
            found = (_IN_STRING if self.in_string else _STRUCTURE).search(text, at)
            if found is None:
                return None
            at = found.end()
            if self._closes(found.group()):
                return at
        return None

    def _closes(self, mark: str) -> bool:
        """Consume one structural character; returns whether the value ends with it."""
        if mark == "\\":
            self._escaped = True
        elif mark == '"':
            self.in_string = not self.in_string
            return not self.in_string and self._depth == 0
        elif mark in "{[":
            self._depth += 1
        else:
            self._depth -= 1
            return self._depth == 0
        return False


def skip_space(text: str, start: int) -> int:
    """Index of the first character of `text[start:]` that is not JSON whitespace."""
    at = start
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def overlap(text: str, marker: str) -> int:
    """Length of the longest end of `text` that begins `marker`, but is not all of it."""
    for length in range(min(len(text), len(marker) - 1), 0, -1):
        if marker.startswith(text[-length:]):
            return length
    return 0

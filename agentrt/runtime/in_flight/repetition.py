"""Detects a model that repeats itself without end."""

from __future__ import annotations

WINDOW_CHARS = 640
MAX_PERIOD_CHARS = 64
LOOK_EVERY_CHARS = 128


class RepetitionCheck:
    """Checks whether a text ends in one short piece that repeats over and over.

    Runs of spaces and newlines, which some grammars allow, are the shortest such pieces.
    """

    __slots__ = ("_since_chars", "_tail")

    def __init__(self) -> None:
        self._tail = ""
        self._since_chars = 0

    def push(self, text: str) -> bool:
        """Append text; True if the last 640 characters repeat a piece of at most 64."""
        self._tail += text
        self._since_chars += len(text)
        if self._since_chars < LOOK_EVERY_CHARS:
            return False
        self._since_chars = 0
        self._tail = self._tail[-WINDOW_CHARS:]
        return len(self._tail) == WINDOW_CHARS and period(self._tail) is not None

    @property
    def tail(self) -> str:
        """The end of the text."""
        return self._tail[-200:]


def period(text: str) -> int | None:
    """Length of the piece that `text` repeats, or None if it is longer than 64."""
    for length in range(1, MAX_PERIOD_CHARS + 1):
        if text.startswith(text[length:]):
            return length
    return None

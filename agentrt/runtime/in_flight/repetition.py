"""Notices a model that repeats itself without end."""

from __future__ import annotations

WINDOW_CHARS = 640
MAX_PERIOD_CHARS = 64
LOOK_EVERY_CHARS = 128


class RepetitionCheck:
    """Watches the end of a text: is it one short piece, over and over?

    Runs of spaces and newlines, which some grammars allow, are the shortest such piece.
    """

    __slots__ = ("_since_chars", "_tail")

    def __init__(self) -> None:
        self._tail = ""
        self._since_chars = 0

    def push(self, text: str) -> bool:
        """Take more text; whether the last 640 characters repeat a piece of at most 64."""
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
    """Length of the short piece that `text` repeats, or None."""
    for length in range(1, MAX_PERIOD_CHARS + 1):
        if text.startswith(text[length:]):
            return length
    return None

"""Reasoning in `<think>` at the beginning of a text, for servers that do not report it apart."""

from __future__ import annotations

_OPENING = "<think>"
_CLOSING = "</think>"


class ThinkTag:
    """Splits a text that comes in pieces; only a tag at its very beginning counts.

    Attributes:
        thought: Reasoning that has not been taken yet.
    """

    def __init__(self) -> None:
        self.thought = ""
        self._held = ""
        self._step = "before"

    def feed_text(self, text: str) -> str:
        """More of the answer, as far as it is known to be none of the reasoning."""
        if self._step == "answer":
            return text
        self._held += text
        if self._step == "before":
            begun = self._held.lstrip()
            if begun.startswith(_OPENING):
                self._step, self._held = "thought", begun.removeprefix(_OPENING)
            elif _OPENING.startswith(begun):
                return ""
            else:
                return self._answer()
        if self._step == "thought":
            thought, closing, rest = self._held.partition(_CLOSING)
            if not closing:
                cut = max(0, len(self._held) - len(_CLOSING) + 1)
                self.thought += self._held[:cut]
                self._held = self._held[cut:]
                return ""
            self.thought += thought
            self._step, self._held = "behind", rest
        self._held = self._held.lstrip()
        return self._answer() if self._held else ""

    def take_thought(self) -> str:
        """The reasoning since the last time."""
        taken, self.thought = self.thought, ""
        return taken

    def flush(self) -> str:
        """The text that was held back, at the end; an open thought is no answer."""
        if self._step == "thought":
            self.thought += self._held
            self._held = ""
        return self._answer() if self._step == "before" else ""

    def _answer(self) -> str:
        text, self._held, self._step = self._held, "", "answer"
        return text

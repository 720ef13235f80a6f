"""Texts as a transcript keeps them: redacted, and cut in the middle where they are too long."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import to_json

from agentrt.base.redaction import has_redaction
from agentrt.telemetry.content import may_hold_secrets, redact, redact_deep

CUT = "\n[... {count} characters left out ...]\n"
_TAIL = 4
"""One part in so many of what is kept is the end of the text."""


class KeptTexts:
    """Prepares texts, and counts what is left out of them.

    Args:
        max_characters: Longest text.

    Attributes:
        cut_characters: Characters left out since it was made.
    """

    __slots__ = ("_max_characters", "cut_characters")

    def __init__(self, max_characters: int) -> None:
        self._max_characters = max_characters
        self.cut_characters = 0

    def text(self, text: str) -> str:
        """A text, redacted and cut."""
        text = redact(text)
        return text if len(text) <= self._max_characters else self._cut(text)

    def json_text(self, text: str) -> str:
        """A JSON text, redacted by its keys too, and cut."""
        if not (has_redaction() or may_hold_secrets(text)):
            return self.text(text)
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return self.text(text)
        return self.value(value)

    def value(self, value: Any) -> str:
        """A value as text: texts as they are, anything else as JSON."""
        if isinstance(value, str):
            return self.text(value)
        return self._cut(_dumps(redact_deep(value)))

    def messages(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Messages in the form of `genai_messages`, changed in place."""
        for message in messages:
            self.parts(message["parts"])
        return messages

    def parts(self, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The parts of a message, changed in place."""
        for part in parts:
            if "content" in part:
                part["content"] = self.text(part["content"])
            elif "response" in part:
                part["response"] = self.text(part["response"])
            else:
                part["arguments"] = self._arguments(part["arguments"])
        return parts

    def _arguments(self, arguments: Any) -> Any:
        arguments = redact_deep(arguments)
        dumped = _dumps(arguments)
        return arguments if len(dumped) <= self._max_characters else self._cut(dumped)

    def _cut(self, text: str) -> str:
        if len(text) <= self._max_characters:
            return text
        tail = self._max_characters // _TAIL
        head = self._max_characters - tail
        count = len(text) - head - tail
        self.cut_characters += count
        return text[:head] + CUT.format(count=count) + text[len(text) - tail :]


def _dumps(value: Any) -> str:
    return json_bytes(value).decode()


def json_bytes(value: Any) -> bytes:
    """A plain value as JSON, by an encoder that takes a fifth of the time of Python's."""
    try:
        return to_json(value, inf_nan_mode="constants")
    except ValueError:  # a text that UTF-8 cannot carry
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")

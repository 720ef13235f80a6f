"""Partial parsing of a JSON value that is still being written (streaming)."""

from __future__ import annotations

import re
from typing import Any

from pydantic_core import from_json

from agentrt.structured.json_scan import ValueScanner, skip_space

_NUMBER_END = re.compile(r"-?(?:[0-9][-+.0-9eE]*)?$")

NOTHING = object()
"""No value is known yet (`None` would be a value)."""


class PartialJson:
    """The best reading of an incomplete JSON text: open strings and brackets are closed.

    A key without a value is left out, and so is a number or word that may continue.
    """

    def __init__(self) -> None:
        self._text = ""
        self._scanner = ValueScanner()
        self._ended = False

    def feed_text(self, text: str) -> None:
        """Append text."""
        start = 0 if self._scanner.started else skip_space(text, 0)
        self._text += text
        if not self._ended and start < len(text):
            self._ended = self._scanner.feed(text, start) is not None

    def value(self) -> Any:
        """The value so far, or `NOTHING`."""
        text = self._text if self._scanner.in_string else _NUMBER_END.sub("", self._text)
        if not text.strip():
            return NOTHING
        try:
            return from_json(text, allow_partial="trailing-strings")
        except ValueError:
            return NOTHING

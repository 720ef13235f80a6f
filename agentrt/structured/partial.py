"""Partial parsing of a JSON value that is still being written (streaming)."""

from __future__ import annotations

import re
from typing import Any

from pydantic_core import from_json

_NUMBER_END = re.compile(r"-?(?:[0-9][-+.0-9eE]*)?$")
_QUOTE = re.compile(r'"')
_IN_STRING = re.compile(r'["\\\\]')

NOTHING = object()
"""No value is known yet (`None` would be a value)."""


class PartialJson:
    """The best reading of an incomplete JSON text: open strings and brackets are closed.

    A key without a value is left out, and so is a number or word that may continue.
    """

    def __init__(self) -> None:
        self._text = ""
        self._in_string = False
        self._escaped = False

    def feed_text(self, text: str) -> None:
        """Append text."""
        self._text += text
        at = 1 if self._escaped and text else 0
        self._escaped = self._escaped and not text
        while found := (_IN_STRING if self._in_string else _QUOTE).search(text, at):
            at = found.end()
            if found.group() == '"':
                self._in_string = not self._in_string
            elif at == len(text):
                self._escaped = True
            else:
                at += 1

    def value(self) -> Any:
        """The value so far, or `NOTHING`."""
        text = self._text if self._in_string else _NUMBER_END.sub("", self._text)
        if not text.strip():
            return NOTHING
        try:
            return from_json(text, allow_partial="trailing-strings")
        except ValueError:
            return NOTHING

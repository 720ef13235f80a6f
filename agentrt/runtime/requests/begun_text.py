"""The beginning of a text that is being written, as far as a prompt takes it.

Its parts stay as they are while the text grows, so that each is encoded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentrt.base.json_style import JsonStyle
from agentrt.program import Gen, OutputSpec

PART_CHUNKS = 32
"""Chunks of an output, mostly tokens, that a prompt takes at once."""


class BegunText:
    """The part of one unfinished output that prompts of one style have taken.

    Args:
        source: The generation that writes it.
        certain: Gives what more text makes certain of the text in the prompt.

    Attributes:
        parts: Parts of the text in the prompt.
    """

    def __init__(self, source: Gen[Any], certain: Callable[[str], str]) -> None:
        self._source = source
        self._certain = certain
        self._taken_chunks = 0
        self.parts: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: Gen[Any], style: JsonStyle) -> BegunText | None:
        """The beginning of an output; None if its value is known at its end alone.

        Args:
            source: The generation that writes it.
            style: Style of values in the prompt.
        """
        certain = _certain_text(source.work.output, style)
        return None if certain is None else cls(source, certain)

    def catch_up(self) -> bool:
        """Take what has been written; whether there is a new part."""
        chunks, before = self._source.chunks, len(self.parts)
        while (end := self._taken_chunks + PART_CHUNKS) <= len(chunks):
            if part := self._certain("".join(chunks[self._taken_chunks : end])):
                self.parts += (part,)
            self._taken_chunks = end
        return len(self.parts) > before


def _certain_text(output: OutputSpec, style: JsonStyle) -> Callable[[str], str] | None:
    if output.is_text:
        return lambda text: text
    place = output.place
    if place is None:
        return None
    from agentrt.structured import JsonRendering  # native libraries come along

    return JsonRendering(place, style).feed

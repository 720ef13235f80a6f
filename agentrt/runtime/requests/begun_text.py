"""The beginning of a text that is being written, as far as a prompt takes it.

Its parts stay as they are while the text grows, so that each is encoded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from agentrt.base.json_style import JsonStyle
from agentrt.program import Gen, OutputSpec, YieldingNode
from agentrt.prompt.large_text import LARGE_CHARACTERS

PART_CHUNKS = 32
"""Chunks of an output, mostly tokens, that a prompt takes at once."""
PART_CHARACTERS = 128
"""Least characters of a tool's text that a prompt takes at once."""

Source: TypeAlias = Gen[Any] | YieldingNode[Any]
"""A node with a text that grows."""


class BegunText:
    """The part of one unfinished text that prompts of one style have taken.

    Args:
        source: The node that writes it.
        certain: Gives what more text makes certain of the text in the prompt.

    Attributes:
        parts: Parts of the text in the prompt.
    """

    def __init__(self, source: Source, certain: Callable[[str], str]) -> None:
        self._source = source
        self._certain = certain
        self._chunks = _chunks_of(source)
        self._taken_chunks = 0
        self.parts: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: Source, style: JsonStyle) -> BegunText | None:
        """The beginning of a text; None if its value is known at its end alone.

        Args:
            source: The node that writes it.
            style: Style of values in the prompt.
        """
        certain = _certain_text(source.work.output, style) if isinstance(source, Gen) else _same
        return None if certain is None else cls(source, certain)

    def catch_up(self) -> bool:
        """Take what has been written, as far as it is encoded soon; whether there is a new part.

        A large text is left for the end, where a worker thread encodes it.
        """
        if self._chunks is not (chunks := _chunks_of(self._source)):  # another attempt
            self._chunks, self._taken_chunks, self.parts = chunks, 0, ()
        before, left_characters = len(self.parts), LARGE_CHARACTERS
        while (end := self._end_of_part()) is not None:
            text = "".join(self._chunks[self._taken_chunks : end])
            left_characters -= len(text)
            if left_characters < 0:
                break
            if part := self._certain(text):
                self.parts += (part,)
            self._taken_chunks = end
        return len(self.parts) > before

    def _end_of_part(self) -> int | None:
        """Index behind the chunks of the next part; None if they are not all there."""
        begin = self._taken_chunks
        if isinstance(self._source, Gen):
            end = begin + PART_CHUNKS
            return end if end <= len(self._chunks) else None
        characters = 0
        for at in range(begin, len(self._chunks)):
            characters += len(self._chunks[at])
            if characters >= PART_CHARACTERS:
                return at + 1
        return None


def _certain_text(output: OutputSpec, style: JsonStyle) -> Callable[[str], str] | None:
    if output.is_text:
        return _same
    place = output.place
    if place is None:
        return None
    from agentrt.structured import JsonRendering  # native libraries come along

    return JsonRendering(place, style).feed


def _same(text: str) -> str:
    return text


def _chunks_of(source: Source) -> list[str]:
    """The text of a node so far."""
    return source.written.chunks if isinstance(source, Gen) else source.chunks

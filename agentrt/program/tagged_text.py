"""Generation of free text with tags, and the reading of its pieces."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Generic, TypeVar

from agentrt.program.generation import ChatT, Generation
from agentrt.program.node import note_wait
from agentrt.program.output_reading import OutputReading
from agentrt.program.tags import Tagged

T = TypeVar("T")


class TaggedGeneration(Generation[list[str | Tagged[T]], ChatT], Generic[T, ChatT]):
    """Free text with tags, already submitted; `TaggedText` is this for `Chat`."""

    __slots__ = ("pieces",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pieces: list[str | Tagged[T]] = []

    def __aiter__(self) -> AsyncIterator[str | Tagged[T]]:
        self.written.handed_on = True
        return PieceReading(self, self._notifier(), self.pieces)

    def _forget_text(self) -> None:
        super()._forget_text()
        self.pieces.clear()


def add_piece(text: TaggedGeneration[Any, Any], piece: Any) -> None:
    """Append text, or a tag that the model has closed."""
    text.pieces.append(piece)
    text._notify()


class PieceReading(OutputReading, Generic[T]):
    """Reads the pieces of a text with tags as they come."""

    def __init__(self, gen: Any, changed: Any, pieces: list[str | Tagged[T]]) -> None:
        super().__init__(gen, changed)
        self._pieces = pieces
        self._next = 0
        self._tags = 0

    async def __anext__(self) -> str | Tagged[T]:
        pieces, index = self._pieces, self._next
        waits = index == len(pieces) and not self._gen.done
        if waits:
            await self.wait_for(lambda: index < len(pieces))
        piece = pieces[index] if index < len(pieces) else None
        is_tag = isinstance(piece, Tagged)
        if waits:
            note_wait(self._gen, self._tags if is_tag else None)
        if piece is None:
            await self.stop()
        self._next += 1
        self._tags += is_tag
        return piece

"""Reading the output of a generation while it is written: text, items, partial values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NoReturn, Self, TypeVar

from agentrt.base.notifier import Notifier
from agentrt.base.record import record
from agentrt.program.node import Node, add_demand, drop_demand, note_wait

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@record
class Partial(Generic[T_co]):
    """The known part of an answer that is still being written.

    `gen.partials()` gives them. Use them to show a structured answer while it grows.

    Example:
        >>> from agentrt import chat, program
        >>> @program
        ... async def watch() -> list[object]:
        ...     gen = chat().user("Name two rivers.").generate(list[str])
        ...     return [part.data async for part in gen.partials() if part.complete]
        >>> watch.run()
        [['Nile', 'Rhine']]

    Attributes:
        text: The text so far.
        data: The value so far as plain Python, with open strings and lists as far as they go; None
            while nothing is known.
        complete: Whether this is the whole answer.
    """

    text: str
    data: Any
    complete: bool


class OutputReading:
    """One reading of a generation, which it demands from the first wait to the end.

    A class rather than an async generator, because a reading may be left at any point: the demand
    ends when the reading is garbage.

    Args:
        gen: The generation.
        changed: Rings when there is more to read, and at the end.
    """

    def __init__(self, gen: Node[Any], changed: Notifier) -> None:
        self._gen = gen
        self._changed = changed
        self._demands = False

    def __aiter__(self) -> Self:
        return self

    async def wait_for(self, ready: Callable[[], bool]) -> None:
        """Wait until `ready()` or until the generation has ended."""
        if not self._demands:
            self._demands = True
            add_demand(self._gen)
        while not ready() and not self._gen.done:
            await self._changed.wait()

    async def stop(self) -> NoReturn:
        """Raise the generation's error, or end the iteration."""
        await self._gen
        raise StopAsyncIteration

    def __del__(self) -> None:
        if self._demands:
            drop_demand(self._gen)


class TextReading(OutputReading):
    """Reads the text of a generation as it comes."""

    def __init__(self, gen: Node[Any], changed: Notifier, chunks: list[str]) -> None:
        super().__init__(gen, changed)
        self._chunks = chunks
        self._next = 0

    async def __anext__(self) -> str:
        chunks = self._chunks
        if self._next == len(chunks) and not self._gen.done:
            await self.wait_for(lambda: self._next < len(chunks))
            note_wait(self._gen)
        if self._next < len(chunks):
            text = "".join(chunks[self._next :])
            self._next = len(chunks)
            return text
        await self.stop()


class ItemReading(OutputReading, Generic[T]):
    """Reads the items of a list as each one closes."""

    def __init__(self, gen: Node[Any], changed: Notifier, items: list[T]) -> None:
        super().__init__(gen, changed)
        self._items = items
        self._next = 0

    async def __anext__(self) -> T:
        items, index = self._items, self._next
        if index == len(items) and not self._gen.done:
            await self.wait_for(lambda: index < len(items))
            note_wait(self._gen, index if index < len(items) else None)
        if index < len(items):
            self._next += 1
            return items[index]
        await self.stop()


class PartialReading(Generic[T_co]):
    """Reads the value of a generation as it grows."""

    def __init__(self, chunks: TextReading, *, is_json: bool) -> None:
        from agentrt.structured import NOTHING, PartialJson  # native libraries come along

        self._nothing = NOTHING
        self._chunks = chunks
        self._text = ""
        self._json = PartialJson() if is_json else None
        self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Partial[T_co]:
        if self._ended:
            raise StopAsyncIteration
        try:
            more = await self._chunks.__anext__()
        except StopAsyncIteration:
            self._ended = True
            return Partial(self._text, self._data(), complete=True)
        self._text += more
        if self._json is not None:
            self._json.feed_text(more)
        return Partial(self._text, self._data(), complete=False)

    def _data(self) -> Any:
        if self._json is None:
            return self._text
        value = self._json.value()
        return None if value is self._nothing else value

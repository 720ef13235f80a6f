"""The messages of a process, with a word when there will be no more: it has ended, busy or idle."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Self


class WatchedMessages:
    """A stream of messages as the SDK's client reads it.

    Args:
        messages: The stream.
        on_end: Called once it has ended.
    """

    def __init__(self, messages: Any, on_end: Callable[[], None]) -> None:
        self._messages = messages
        self._on_end = on_end

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._messages.__anext__()
        except StopAsyncIteration:
            self._on_end()
            raise

    async def receive(self) -> Any:
        """The next message."""
        return await self._messages.receive()

    async def aclose(self) -> None:
        """Close the stream."""
        await self._messages.aclose()

    async def __aenter__(self) -> Self:
        await self._messages.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._messages.__aexit__(*error)


@asynccontextmanager
async def watched(
    transport: AbstractAsyncContextManager[Any], on_end: Callable[[], None]
) -> AsyncIterator[Any]:
    """A transport of the SDK whose end is told.

    Args:
        transport: The transport, a pair of streams once it is entered.
        on_end: Called when no more messages will come.
    """
    async with transport as (messages, sent):
        yield WatchedMessages(messages, on_end), sent

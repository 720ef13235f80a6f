"""Opens a runtime: for a block, or until it is closed from any task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager
from types import TracebackType

from agentrt.base.errors import UsageError
from agentrt.runtime.runtime import Runtime


class RuntimeOpening:
    """A runtime that is about to be opened.

    Enter it with `async with`, or await it where no block can stand around the runs, as over the
    cells of a notebook; end it there with `await runtime.aclose()`.

    Args:
        open_block: Makes the block in which the runtime is open.

    Raises:
        UsageError: The running event loop is not one of asyncio.
    """

    def __init__(self, open_block: Callable[[], AbstractAsyncContextManager[Runtime]]) -> None:
        self._open_block = open_block
        self._block: AbstractAsyncContextManager[Runtime] | None = None

    async def __aenter__(self) -> Runtime:
        require_asyncio()
        self._block = self._open_block()
        return await self._block.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        assert self._block is not None
        return await self._block.__aexit__(kind, error, trace)

    def __await__(self) -> Generator[object, None, Runtime]:
        return self._open().__await__()

    async def _open(self) -> Runtime:
        require_asyncio()
        host = RuntimeHost(self._open_block())
        runtime = await host.start()
        runtime.close_with(host.aclose)
        return runtime


class RuntimeHost:
    """A task that holds a block open.

    The block has cancel scopes, which the task that opened them must close. This task is that one,
    so any other task may start and end it.

    Args:
        block: The block in which the runtime is open.
    """

    def __init__(self, block: AbstractAsyncContextManager[Runtime]) -> None:
        self._block = block
        self._closing = asyncio.Event()
        self._opened: asyncio.Future[Runtime] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(), name="agentrt runtime")

    async def start(self) -> Runtime:
        """Wait until the runtime is open.

        Raises:
            AgentrtError: Opening fails.
        """
        try:
            return await asyncio.shield(self._opened)
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait([self._task])
            raise

    async def aclose(self) -> None:
        """Close the runtime and wait until its engines have ended.

        Raises:
            BaseException: An error with which the runtime has ended.
        """
        self._closing.set()
        await asyncio.shield(self._task)

    async def _hold(self) -> None:
        try:
            async with self._block as runtime:
                self._opened.set_result(runtime)
                await self._closing.wait()
        except BaseException as error:
            if self._opened.done():
                raise
            self._opened.set_exception(error)


def require_asyncio() -> None:
    """Refuse the event loop of another library.

    Raises:
        UsageError: No loop of asyncio is running; its policy, such as uvloop's, does not matter.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise UsageError(
            "agentrt needs an event loop of asyncio, and another one is running",
            hint="Start with `asyncio.run(main())`, or `anyio.run(main)` without another backend",
        ) from None

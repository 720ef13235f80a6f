"""Threads for functions that may never return.

Python waits at its end for every thread that is no daemon, and anyio's are none: one tool that
computes for ever would hold the process of whoever uses us as a library. Ours are daemons. What is
still running in one when the process ends is left where it is, so a tool that must finish what it
began is a `write` tool, whose run waits for it. As they are not anyio's, `anyio.from_thread` has no
way back to the loop from them.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from queue import Empty, SimpleQueue
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
IDLE_S = 10.0
_idle: list[_Worker] = []
_lock = threading.Lock()
_under_way: WeakKeyDictionary[asyncio.AbstractEventLoop, int] = WeakKeyDictionary()


async def run_in_worker(function: Callable[[], T], on_return: Callable[[], None]) -> T:
    """Run a function in a worker thread, with the context variables of the caller.

    A cancelled call returns at once and leaves the function to itself.

    Args:
        function: What to run; it is not begun when the call was cancelled before.
        on_return: Called on the loop when the function has returned, wanted or not.
    """
    loop = asyncio.get_running_loop()
    call = _Call(function, on_return, loop)
    _under_way[loop] = _under_way.get(loop, 0) + 1
    with _lock:
        worker = _idle.pop() if _idle else None
    if worker is None:
        worker = _Worker()
        worker.start()
    worker.calls.put(call)
    return await call.future  # type: ignore[no-any-return]


def calls_under_way(loop: asyncio.AbstractEventLoop) -> int:
    """How many functions that `loop` has started have not returned, wanted or not."""
    return _under_way.get(loop, 0)


class _Call:
    """One function to run, and where what becomes of it goes."""

    __slots__ = ("context", "function", "future", "loop", "on_return")

    def __init__(
        self,
        function: Callable[[], Any],
        on_return: Callable[[], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.function = function
        self.on_return = on_return
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.context: Context = copy_context()
        library = getattr(sys.modules.get("sniffio"), "current_async_library_cvar", None)
        if library is not None:  # where somebody tells by it which library runs: here none does
            self.context.run(library.set, None)

    def run(self) -> None:
        """On the worker."""
        value: Any = None
        error: BaseException | None = None
        if not self.future.cancelled():
            try:
                value = self.context.run(self.function)
            except BaseException as raised:
                error = raised
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self.loop.call_soon_threadsafe(self._end, value, error)

    def _end(self, value: Any, error: BaseException | None) -> None:
        """On the loop."""
        _under_way[self.loop] -= 1
        self.on_return()
        if self.future.cancelled():
            return
        if isinstance(error, StopIteration):  # it would end the coroutine that waits
            wrapped = RuntimeError(f"the function raised {error!r}")
            wrapped.__cause__ = error
            error = wrapped
        if error is None:
            self.future.set_result(value)
        else:
            self.future.set_exception(error)


class _Worker(threading.Thread):
    """Runs calls one after the other, and ends when there was none for a while."""

    def __init__(self) -> None:
        super().__init__(name="agentrt tool", daemon=True)
        self.calls: SimpleQueue[_Call] = SimpleQueue()

    def run(self) -> None:
        while (call := self._next()) is not None:
            call.run()
            del call  # nothing of it may live on while we wait
            with _lock:
                _idle.append(self)

    def _next(self) -> _Call | None:
        try:
            return self.calls.get(timeout=IDLE_S)
        except Empty:
            with _lock:
                if self in _idle:
                    _idle.remove(self)
                    return None
            return self.calls.get()  # it was chosen this moment

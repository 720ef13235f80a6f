"""Threads for functions that may never return.

Python waits at exit for every non-daemon thread, and anyio's threads are none: one tool that
computes for ever would block the exit of a process that uses this library. These threads are
daemons. A function still running when the process ends is abandoned, so a tool that must finish is
a `write` tool, and its run waits for it. `anyio.from_thread` does not work in these threads.
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
_running: WeakKeyDictionary[asyncio.AbstractEventLoop, int] = WeakKeyDictionary()


async def run_in_worker(function: Callable[[], T], on_return: Callable[[], None]) -> T:
    """Run a function in a worker thread, with the context variables of the caller.

    A cancelled call returns at once and abandons the function.

    Args:
        function: Function to run; it is not started if the call was cancelled before.
        on_return: Called on the loop when the function has returned, even if abandoned.
    """
    loop = asyncio.get_running_loop()
    call = _Call(function, on_return, loop)
    _running[loop] = _running.get(loop, 0) + 1
    with _lock:
        worker = _idle.pop() if _idle else None
    if worker is None:
        worker = _Worker()
        worker.start()
    worker.calls.put(call)
    return await call.future  # type: ignore[no-any-return]


def running_calls(loop: asyncio.AbstractEventLoop) -> int:
    """Number of functions started by `loop` that have not returned, abandoned ones included."""
    return _running.get(loop, 0)


class _Call:
    """One function to run, with the future of its result."""

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
        if library is not None:  # sniffio detects the running library by it: none here
            self.context.run(library.set, None)

    def run(self) -> None:
        """Run the function, on the worker thread."""
        value: Any = None
        error: BaseException | None = None
        if not self.future.cancelled():
            try:
                value = self.context.run(self.function)
            except BaseException as raised:
                error = raised
        with suppress(RuntimeError):  # the loop is closed: the result is not awaited
            self.loop.call_soon_threadsafe(self._end, value, error)

    def _end(self, value: Any, error: BaseException | None) -> None:
        """Deliver the result, on the loop."""
        _running[self.loop] -= 1
        self.on_return()
        if self.future.cancelled():
            return
        if isinstance(error, StopIteration):  # it would end the awaiting coroutine
            wrapped = RuntimeError(f"the function raised {error!r}")
            wrapped.__cause__ = error
            error = wrapped
        if error is None:
            self.future.set_result(value)
        else:
            self.future.set_exception(error)


class _Worker(threading.Thread):
    """Runs calls one after the other, and ends after a while without any."""

    def __init__(self) -> None:
        super().__init__(name="agentrt tool", daemon=True)
        self.calls: SimpleQueue[_Call] = SimpleQueue()

    def run(self) -> None:
        while (call := self._next()) is not None:
            call.run()
            del call  # release it while waiting
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
            return self.calls.get()  # it was chosen at this moment

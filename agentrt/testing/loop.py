"""An event loop with virtual time: it jumps to the next timer if nothing else can happen.

Sleeps, timeouts and deadlines of anyio and asyncio then cost no waiting and happen exactly on time.
Real work stays real: while a worker thread or a process runs or a socket is open, time stands still
and the loop waits for them. If they have been silent for `patience_s`, time moves on, so that a
timeout over a thread that never answers still fires.
"""

from __future__ import annotations

import asyncio
import contextvars
import selectors
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from functools import partial
from heapq import heappush
from typing import Any, TypeVar, TypeVarTuple, Unpack

import anyio

from agentrt.tools import running_calls

T = TypeVar("T")
Args = TypeVarTuple("Args")

START_S = 1_000.0  # not 0: a ledger's 0.0 means "never"
_POLL_S = 0.001


class Stuck(RuntimeError):
    """A deadlock: every task waits and nothing can wake one."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An asyncio loop with virtual time; usually used through `run_virtual`.

    Args:
        patience_s: Real seconds to wait for a silent thread or socket before time moves on.
        start_s: The first instant.

    Attributes:
        now_s: The instant.
        on_idle: Called before time moves on, with the instant of the next timer, infinity if there
            is none. It returns whether there is more to do at this instant.
    """

    def __init__(self, patience_s: float = 10.0, start_s: float = START_S) -> None:
        self.now_s = start_s
        self.on_idle: Callable[[float], bool] | None = None
        self._calls_in_threads = 0
        self._set_timers = 0
        self._processes: weakref.WeakSet[asyncio.SubprocessTransport] = weakref.WeakSet()
        super().__init__(_JumpingSelector(self, patience_s))

    def time(self) -> float:
        return self.now_s

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Args]], object],
        *args: *Args,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """As of any loop, but timers of one instant fire in the order in which they were set."""
        self._set_timers += 1
        timer = _OrderedTimer(when, callback, args, self, context)
        timer.serial = self._set_timers
        heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    @property
    def next_timer_s(self) -> float:
        """The instant of the next timer; infinity if there is none."""
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return timers[0].when() if timers else float("inf")

    def idles(self) -> bool:
        """Whether there is nothing more to do at this instant."""
        return self.on_idle is None or not self.on_idle(self.next_timer_s)

    def jump(self, seconds: float) -> None:
        """Move on by so many seconds: exactly to the next timer, if that is what they lead to."""
        ahead_s = self.next_timer_s - self.now_s
        near = ahead_s <= seconds + _POLL_S
        self.now_s = max(self.now_s, self.next_timer_s) if near else self.now_s + seconds

    def real_work_pending(self, open_files: int) -> bool:
        """Whether a thread, a process or a socket of this loop may still deliver something.

        `open_files` counts the files that the loop watches, its own wake-up pipe included.
        """
        if open_files > 1 or self._calls_in_threads > 0 or running_calls(self) > 0:
            return True
        if any(one.get_returncode() is None for one in self._processes):
            return True
        return _anyio_thread_busy(self)

    async def subprocess_exec(self, *args: Any, **kwargs: Any) -> Any:
        transport, protocol = await super().subprocess_exec(*args, **kwargs)
        self._processes.add(transport)
        return transport, protocol

    def run_in_executor(
        self, executor: Any, func: Callable[[Unpack[Args]], T], *args: *Args
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._calls_in_threads += 1
        future.add_done_callback(self._call_returned)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        self._calls_in_threads += 1  # joins its threads from one more thread
        try:
            await super().shutdown_default_executor()
        finally:
            self._calls_in_threads -= 1

    def _call_returned(self, _future: asyncio.Future[Any]) -> None:
        self._calls_in_threads -= 1


class _OrderedTimer(asyncio.TimerHandle):
    __slots__ = ("serial",)

    serial: int

    def __lt__(self, other: asyncio.TimerHandle) -> bool:
        assert isinstance(other, _OrderedTimer)
        return (self.when(), self.serial) < (other.when(), other.serial)


class _JumpingSelector(selectors.DefaultSelector):
    """Polls for real, and moves the loop's time instead of sleeping."""

    def __init__(self, loop: VirtualTimeLoop, patience_s: float) -> None:
        super().__init__()
        self._loop = loop
        self._patience_s = patience_s

    def select(self, timeout: float | None = None) -> list[Any]:
        give_up_at_s: float | None = None
        while True:
            # Checked before polling: a thread first posts its result and then counts as idle.
            pending = self._loop.real_work_pending(len(self.get_map()))
            ready = super().select(0)
            if ready or timeout == 0:
                return ready
            if not pending and not self._loop.idles():
                return ready
            now_s = time.monotonic()
            give_up_at_s = give_up_at_s or now_s + self._patience_s
            if pending and now_s < give_up_at_s:
                ready = super().select(_POLL_S)
                if ready:
                    return ready
                continue
            if timeout is not None:
                self._loop.jump(timeout)
                return ready
            if not pending and now_s >= give_up_at_s:
                raise Stuck(
                    "every task waits, no timer is set and no thread or socket is busy: a deadlock"
                )
            ready = super().select(_POLL_S)  # a plain thread may still call in
            if ready:
                return ready


def _anyio_thread_busy(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether `anyio.to_thread.run_sync` has a running call of `loop`."""
    own = (thread for thread in threading.enumerate() if getattr(thread, "loop", None) is loop)
    queues = (getattr(thread, "queue", None) for thread in own)
    return any(getattr(queue, "unfinished_tasks", None) for queue in queues)


def run_virtual(
    main: Callable[[Unpack[Args]], Awaitable[T]],
    *args: *Args,
    patience_s: float = 10.0,
    start_s: float = START_S,
) -> T:
    """Run `main` on a loop with virtual time.

    Example:
        >>> async def nap() -> float:
        ...     before_s = anyio.current_time()
        ...     await anyio.sleep(3600)
        ...     return anyio.current_time() - before_s
        >>> run_virtual(nap)
        3600.0

    Args:
        main: Coroutine function.
        args: Arguments of `main`.
        patience_s: Real seconds to wait for a silent thread or socket before time moves on.
        start_s: The first instant.

    Raises:
        Stuck: Every task waits for another (deadlock).
    """
    factory = partial(VirtualTimeLoop, patience_s, start_s)
    return anyio.run(main, *args, backend="asyncio", backend_options={"loop_factory": factory})

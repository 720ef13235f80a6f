"""Masks that are filled while steps go on, on threads of their own.

A mask in native code cannot be interrupted. One that exceeds its limit is given up: its thread is
replaced, and ends with the mask or with the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from math import inf
from queue import SimpleQueue
from time import perf_counter
from typing import Any, Generic, TypeVar

T = TypeVar("T")

MAX_ABANDONED = 8
"""Maximum number of threads that go on with masks which nothing needs any more."""


class MaskFuture(Future[T]):
    """Masks that a thread fills.

    Attributes:
        began_s: Start of the filling, on `perf_counter`; `inf` while all threads are busy.
    """

    began_s = inf

    def takes_longer(self, limit_s: float) -> bool:
        """Whether a thread has been filling the masks for longer than this."""
        return not self.done() and perf_counter() - self.began_s > limit_s


@dataclass(frozen=True, slots=True)
class DetachedMask(Generic[T]):
    """A mask that is filled while steps go on; meanwhile its state belongs to that thread.

    Attributes:
        masks: The masks being filled.
        row: Row of the mask among them.
        is_alone: Whether no other row waits for them.
    """

    masks: MaskFuture[T]
    row: int
    is_alone: bool = False

    def wait(self, timeout_s: float) -> bool:
        """Wait until the state is free again; False if it is not within that time."""
        return not wait([self.masks], timeout_s).not_done


class MaskThreads:
    """Daemon threads that fill masks one after another; a thread that is stuck can be replaced.

    Args:
        threads: Number of threads.
        name: Name of the threads.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._jobs: SimpleQueue[Callable[[], bool]] = SimpleQueue()
        self._threads = threads
        self._name = name
        self._filling: set[MaskFuture[Any]] = set()
        self._abandoned: set[MaskFuture[Any]] = set()
        for _ in range(threads):
            self._start()

    def submit(self, fill: Callable[[], T]) -> MaskFuture[T]:
        """Fill masks on the next free thread."""
        future: MaskFuture[T] = MaskFuture()

        def job() -> bool:
            self._filling.add(future)
            future.began_s = perf_counter()
            if not future.set_running_or_notify_cancel():
                return self._leaves(future)
            try:
                future.set_result(fill())
            except BaseException as wrong:
                future.set_exception(wrong)
            goes_on = self._leaves(future)
            self._abandoned.discard(future)
            return goes_on

        self._jobs.put(job)
        return future

    def replace_stuck(self, limit_s: float) -> None:
        """Replace each thread that has been filling the same masks for longer than this."""
        for future in tuple(self._filling):
            if future.takes_longer(limit_s) and self._leaves(future):
                self._start()

    def abandon(self, future: MaskFuture[Any]) -> None:
        """Give up masks that nothing needs any more.

        Those that wait for a thread are never filled. A thread that is filling them is replaced,
        unless too many such threads still go on: each takes its share of the cores.
        """
        if future.cancel() or future.done() or len(self._abandoned) >= MAX_ABANDONED:
            return
        self._abandoned.add(future)
        if self._leaves(future):
            self._start()
        else:
            self._abandoned.discard(future)  # they are filled by now

    def close(self) -> None:
        """End the threads once their masks are filled."""
        for _ in range(self._threads):
            self._jobs.put(lambda: False)

    def _leaves(self, future: MaskFuture[Any]) -> bool:
        """Take a future from those being filled; False if its thread was replaced before."""
        try:
            self._filling.remove(future)
        except KeyError:
            return False
        return True

    def _start(self) -> None:
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def _run(self) -> None:
        while self._jobs.get()():
            pass

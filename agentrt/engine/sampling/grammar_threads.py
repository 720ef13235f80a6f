"""Work on grammars while steps go on, on threads of its own: masks, searches for ends.

Native code cannot be interrupted. Work that exceeds its limit is given up: its thread is replaced,
and ends with the work or with the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from math import inf
from queue import SimpleQueue
from time import perf_counter
from typing import Any, TypeVar

T = TypeVar("T")

MAX_ABANDONED = 8
"""Maximum number of threads that go on with work which nothing needs any more."""


class GrammarFuture(Future[T]):
    """Work of a thread.

    Attributes:
        began_s: Start of the work, on `perf_counter`; `inf` while all threads are busy.
    """

    began_s = inf

    def takes_longer(self, limit_s: float) -> bool:
        """Whether a thread has been at this work for longer than this."""
        return not self.done() and perf_counter() - self.began_s > limit_s


class GrammarThreads:
    """Daemon threads that work one piece after another; a thread that is stuck can be replaced.

    Args:
        threads: Number of threads.
        name: Name of the threads.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._jobs: SimpleQueue[Callable[[], bool]] = SimpleQueue()
        self._threads = threads
        self._name = name
        self._under_way: set[GrammarFuture[Any]] = set()
        self._abandoned: set[GrammarFuture[Any]] = set()
        for _ in range(threads):
            self._start()

    def submit(self, work: Callable[[], T]) -> GrammarFuture[T]:
        """Do this work on the next free thread."""
        future: GrammarFuture[T] = GrammarFuture()

        def job() -> bool:
            self._under_way.add(future)
            future.began_s = perf_counter()
            if not future.set_running_or_notify_cancel():
                return self._leaves(future)
            try:
                future.set_result(work())
            except BaseException as wrong:
                future.set_exception(wrong)
            goes_on = self._leaves(future)
            self._abandoned.discard(future)
            return goes_on

        self._jobs.put(job)
        return future

    def replace_stuck(self, limit_s: float) -> None:
        """Replace each thread that has been at the same work for longer than this."""
        for future in tuple(self._under_way):
            if future.takes_longer(limit_s) and self._leaves(future):
                self._start()

    def abandon(self, future: GrammarFuture[Any]) -> None:
        """Give up work that nothing needs any more.

        Work that waits for a thread is never begun. A thread that is at it is replaced, unless too
        many such threads still go on: each takes its share of the cores.
        """
        if future.cancel() or future.done() or len(self._abandoned) >= MAX_ABANDONED:
            return
        self._abandoned.add(future)
        if self._leaves(future):
            self._start()
        else:
            self._abandoned.discard(future)  # it is done by now

    def close(self) -> None:
        """End the threads once their work is done."""
        for _ in range(self._threads):
            self._jobs.put(lambda: False)

    def _leaves(self, future: GrammarFuture[Any]) -> bool:
        """Take a future from those under way; False if its thread was replaced before."""
        try:
            self._under_way.remove(future)
        except KeyError:
            return False
        return True

    def _start(self) -> None:
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def _run(self) -> None:
        while self._jobs.get()():
            pass

"""Masks that are filled while steps go on, on threads of their own.

A mask in native code cannot be interrupted. One that exceeds its limit is given up: its thread is
replaced, and ends by itself or with the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from queue import SimpleQueue
from time import perf_counter
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DetachedMask(Generic[T]):
    """A mask that is filled while steps go on; meanwhile its state belongs to that thread.

    Attributes:
        masks: The masks being filled.
        row: Row of the mask among them.
        began_s: Start of the filling, on `perf_counter`.
    """

    masks: Future[T]
    row: int
    began_s: float

    def wait(self, timeout_s: float) -> bool:
        """Wait until the state is free again; False if it is not within that time."""
        return not wait([self.masks], timeout_s).not_done

    def is_given_up(self, limit_s: float) -> bool:
        """Whether the mask takes longer than it may."""
        return not self.masks.done() and perf_counter() - self.began_s > limit_s


class MaskThreads:
    """Daemon threads that fill masks one after another; a thread that is stuck can be replaced."""

    def __init__(self, threads: int) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads = 0
        for _ in range(threads):
            self.add_thread()

    def add_thread(self) -> None:
        """Start another thread."""
        self._threads += 1
        name = f"agentrt-late-masks-{self._threads}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, fill: Callable[[], T]) -> Future[T]:
        """Fill masks on the next free thread."""
        future: Future[T] = Future()

        def job() -> None:
            try:
                future.set_result(fill())
            except BaseException as wrong:
                future.set_exception(wrong)

        self._jobs.put(job)
        return future

    def close(self) -> None:
        """End the threads once their masks are filled."""
        for _ in range(self._threads):
            self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

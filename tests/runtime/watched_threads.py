"""Threads in which code of an author runs; those of workers may be held there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar


class Watch:
    """The threads that come by, in order.

    Attributes:
        threads: The threads.
        gate: Holds workers while it is not set.
        on_note: Is called by each thread that comes by.
    """

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.gate = threading.Event()
        self.gate.set()
        self.on_note: Callable[[], object] = lambda: None

    def note(self) -> None:
        """Note the thread, and hold it if it is a worker's."""
        thread = threading.current_thread()
        self.threads.append(thread)
        self.on_note()
        assert thread is threading.main_thread() or self.gate.wait(60)


WATCH: ContextVar[Watch] = ContextVar("WATCH")

"""A tool, a program or a question under way."""

from __future__ import annotations

import anyio


class Task:
    """How to end what runs in a task.

    Attributes:
        scope: Cancels it.
        stop_error: What its node ends with, once it was told to end.
        so_far: The path that took the time, as it was when its deadline passed.
    """

    __slots__ = ("scope", "so_far", "stop_error")

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self.stop_error: Exception | None = None
        self.so_far = ""

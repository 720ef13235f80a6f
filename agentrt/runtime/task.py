"""A tool, a program or a question under way."""

from __future__ import annotations

import anyio

from agentrt.errors import SoFar


class Task:
    """How to end what runs in a task.

    Attributes:
        scope: Cancels it. Shielded: when the caller of the run is cancelled, the scopes of its
            programs end what they own in order, and nothing ends before its owner says so.
        stop_error: What its node ends with, once it was told to end.
        so_far: What had taken the time when its deadline passed; None before.
    """

    __slots__ = ("scope", "so_far", "stop_error")

    def __init__(self) -> None:
        self.scope = anyio.CancelScope(shield=True)
        self.stop_error: Exception | None = None
        self.so_far: SoFar | None = None

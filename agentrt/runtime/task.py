"""Tools, programs and questions under way."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context

import anyio

from agentrt.base.notifier import Notifier
from agentrt.base.run_progress import RunProgress


class Task:
    """How to end what runs in a task.

    Attributes:
        scope: Cancels it.
        stop_error: What its node ends with, once it was told to end.
        progress: What had taken the time when its deadline passed; None before.
    """

    __slots__ = ("progress", "scope", "stop_error")

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self.stop_error: Exception | None = None
        self.progress: RunProgress | None = None


class Tasks:
    """The tasks of one run; none outlives it.

    Plain tasks and no task group, which costs twice as much a task and would end them when the
    caller of the run is cancelled: the scopes of its programs end what they own, in order, and
    nothing ends before its owner says so.
    """

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[None]] = set()
        self._ended = Notifier()
        self._error: BaseException | None = None

    def start(self, body: Coroutine[None, None, None], name: str, context: Context) -> None:
        """Start one, with these context variables."""
        task = asyncio.get_running_loop().create_task(body, name=name, context=context)
        self._under_way.add(task)
        task.add_done_callback(self._end)

    async def ended(self) -> None:
        """Wait until none is left.

        Raises:
            BaseException: What went through a task of all that no node can hold.
        """
        with anyio.CancelScope(shield=True):
            while self._under_way:
                await self._ended.wait()
        if self._error is not None:
            raise self._error

    def _end(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            self._error = self._error or task.exception()
        if not self._under_way:
            self._ended.notify_all()

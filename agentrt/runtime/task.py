"""Tasks of tools, programs and questions."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

import anyio

from agentrt.base.notifier import Notifier
from agentrt.base.record import record
from agentrt.base.run_progress import RunProgress


@dataclass(slots=True, eq=False)
class Task:
    """The handle by which the task of a node is ended.

    Attributes:
        scope: Cancels the task.
        stop_error: The error of the node once it has been told to end, else None.
        progress: The path that had taken the time when the deadline passed; None before.
    """

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    stop_error: Exception | None = None
    progress: RunProgress | None = None


@record
class TaskEnd:
    """The end of a task.

    Attributes:
        value: The value of the node; None with an error.
        error: The error of the node, or None.
    """

    value: Any = None
    error: Exception | None = None


class TaskSet:
    """The asyncio tasks of one run, none of which outlives it.

    Not a task group, which costs twice as much a task and would end the tasks when the caller of
    the run is cancelled: the scopes of the programs end what they own, in order.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._all_done = Notifier()
        self._error: BaseException | None = None

    def start(self, body: Coroutine[None, None, None], name: str, context: Context) -> None:
        """Start a task with these context variables."""
        task = asyncio.get_running_loop().create_task(body, name=name, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    async def wait_until_done(self) -> None:
        """Wait until no task is left.

        Raises:
            BaseException: An error that went through a task and that no node can hold.
        """
        if self._tasks:
            with anyio.CancelScope(shield=True):
                while self._tasks:
                    await self._all_done.wait()
        if self._error is not None:
            raise self._error

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            self._error = self._error or task.exception()
        if not self._tasks:
            self._all_done.notify_all()

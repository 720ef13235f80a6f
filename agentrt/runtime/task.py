"""Tasks of tools, programs and questions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

import anyio

from agentrt.base.ids import NodeId
from agentrt.base.notifier import Notifier
from agentrt.base.record import record
from agentrt.base.run_progress import RunProgress

_log = logging.getLogger("agentrt")

STOP_GRACE_S = 0.3
"""Time for code to end once it is cancelled; its node then ends without it."""

CHECK_S = 0.05

_left: set[asyncio.Task[None]] = set()
"""Tasks that go on although they were cancelled; kept, for their end at a collection is noisy."""


@dataclass(slots=True, eq=False)
class Task:
    """The handle by which the task of a node is ended.

    Attributes:
        scope: Cancels the task.
        stop_error: The error of the node once it has been told to end, else None.
        progress: The path that had taken the time when the deadline passed; None before.
        leave: Ends the node without its code; returns whether it has ended. None before the task
            has begun and once it is over.
    """

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    stop_error: Exception | None = None
    progress: RunProgress | None = None
    leave: Callable[[], bool] | None = None
    _timer: asyncio.TimerHandle | None = None

    def stop(self, error: Exception) -> None:
        """Have the task end; its node ends with `error`, at the latest soon after the grace."""
        is_first = self.stop_error is None
        self.stop_error = error
        self.scope.cancel()
        if is_first and self.leave is not None:
            self.expect_end(0.0)

    def expect_end(self, in_s: float) -> None:
        """Leave the task if it has not ended by then, and a grace later."""
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(in_s + STOP_GRACE_S, self._check)

    def close(self) -> None:
        """Note that the task is over."""
        self.leave = None
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        if self.leave is None:
            return
        if not self.leave():
            self._timer = asyncio.get_running_loop().call_later(CHECK_S, self._check)
            return
        again = getattr(self.scope, "_cancel_handle", None)
        if again is not None:  # anyio would cancel the task anew in each turn of the loop
            again.cancel()


@record
class TaskEnd:
    """The end of a task.

    Attributes:
        value: The value of the node; None with an error.
        error: The error of the node, or None.
    """

    value: Any = None
    error: Exception | None = None


@record
class StopRequest:
    """A request of the program's code to end a node.

    Attributes:
        at_s: Time of the request.
        after: Last node that the code had waited for by then.
        after_item: Item of that node.
    """

    at_s: float
    after: NodeId | None
    after_item: int | None


class TaskSet:
    """The asyncio tasks of one run; those that do not end when they are cancelled are left.

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
        """Wait until no task is left; all nodes have ended, so none should take long.

        Raises:
            BaseException: An error that went through a task and that no node can hold.
        """
        if self._tasks:
            with anyio.move_on_after(STOP_GRACE_S, shield=True):
                while self._tasks:
                    await self._all_done.wait()
            for task in list(self._tasks):
                self._leave(task)
        if self._error is not None:
            raise self._error

    def leave(self, node_id: str) -> None:
        """Wait no longer for the tasks of a node."""
        for task in list(self._tasks):
            if task.get_name().partition(" ")[0] == node_id:
                self._leave(task)

    def _leave(self, task: asyncio.Task[None]) -> None:
        _log.warning("%s was stopped and does not end: nothing waits for it", task.get_name())
        _left.add(task)
        task.add_done_callback(_left.discard)
        asyncio.tasks._unregister_task(task)  # the end of the loop would wait for it
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._discard(task)

    def _end(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()  # read, or asyncio complains
        if task in self._tasks:
            self._error = self._error or error
            self._discard(task)

    def _discard(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not self._tasks:
            self._all_done.notify_all()

"""Calls of `write` tools: they end by themselves, however long their callers wait.

A deadline, a timeout or a cancellation ends the waiting. The call goes on, and holds the end of the
process for a grace period.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import anyio

from agentrt.base.errors import OutcomeUnknown

T = TypeVar("T")
_log = logging.getLogger("agentrt")
_under_way: list[str] = []


def called_write(tool: str, function: Callable[[], T]) -> T:
    """The result of a `write` tool's function, which counts as under way meanwhile."""
    _under_way.append(tool)
    try:
        return function()
    finally:
        _under_way.remove(tool)


async def awaited_write(tool: str, function: Callable[[], Awaitable[T]]) -> T:
    """The same for a function that is awaited."""
    _under_way.append(tool)
    try:
        return await function()
    finally:
        _under_way.remove(tool)


def writes_under_way() -> list[str]:
    """Names of the `write` tools whose functions have not returned, in all runtimes."""
    return sorted(set(_under_way))


def hold_notice(grace_s: float, tools: Sequence[str]) -> str:
    """The line on standard error about `write` tools that hold the end of the process."""
    return (
        f"waiting up to {grace_s:g} s for {', '.join(tools)}: a write tool is not cut short; "
        "a second signal ends the process\n"
    )


def unknown_notice(tools: Sequence[str]) -> str:
    """The line on standard error about `write` tools that the process does not wait for."""
    return f"{', '.join(tools)} has not ended: its outcome is unknown\n"


class WriteCalls:
    """The calls of `write` tools of one runtime that have not ended."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], str] = {}
        self._left: set[asyncio.Task[Any]] = set()

    async def result_of(
        self, tool: str, call: Callable[[], Coroutine[Any, Any, Any]], timeout_s: float | None
    ) -> Any:
        """Start a call and wait for its result.

        Raises:
            OutcomeUnknown: The wait was cancelled or took longer than `timeout_s`.
            Exception: The call's own error.
        """
        task = asyncio.get_running_loop().create_task(call(), name=f"write {tool}")
        self._tasks[task] = tool
        task.add_done_callback(self._end)
        cause: asyncio.CancelledError | None = None
        why = "the wait for it was cancelled"
        try:
            await asyncio.wait([task], timeout=timeout_s)
        except asyncio.CancelledError as cancelled:
            cause = cancelled
        else:
            if not task.done():
                why = f"it took longer than {timeout_s:g} s"
        if task.done():
            return task.result()
        self._left.add(task)
        raise OutcomeUnknown(
            f"{tool} goes on, and its outcome is unknown: {why}", tool=tool, holds_content=False
        ) from cause

    async def hold(self, grace_s: float) -> None:
        """Wait for the calls that have not ended, even while the caller is being cancelled.

        Args:
            grace_s: Time to wait. A call that has not ended by then is named on standard error.
        """
        if not self._tasks or grace_s <= 0:
            return
        sys.stderr.write(hold_notice(grace_s, self._names()))
        sys.stderr.flush()
        with anyio.CancelScope(shield=True):
            await asyncio.wait(list(self._tasks), timeout=grace_s)
        if self._tasks:
            sys.stderr.write(unknown_notice(self._names()))

    def _names(self) -> list[str]:
        return sorted(set(self._tasks.values()))

    def _end(self, task: asyncio.Task[Any]) -> None:
        tool = self._tasks.pop(task)
        error = None if task.cancelled() else task.exception()  # read, or asyncio complains
        if task not in self._left:
            return
        self._left.discard(task)
        how = "was cut short" if task.cancelled() else f"failed: {error!r}" if error else "is done"
        _log.warning("%s %s; its run had ended the wait for it", tool, how)

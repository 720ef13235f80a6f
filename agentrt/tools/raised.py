"""Any error of a tool as an `Exception`, so that it is not mistaken for the end of a task.

`KeyboardInterrupt` and `SystemExit` would end the event loop, and a `CancelledError` of a tool's
own would look like a cancellation of its caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


class ToolRaised(Exception):
    """A tool raised a `BaseException` outside the `Exception` tree.

    Attributes:
        error: The error of the tool.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(repr(error))
        self.error = error


def called(function: Callable[[], T]) -> T:
    """The result of a function in a worker thread.

    Raises:
        ToolRaised: The error is outside the `Exception` tree.
    """
    try:
        return function()
    except Exception:
        raise
    except BaseException as error:
        raise ToolRaised(error) from error


async def awaited(function: Callable[[], Awaitable[T]]) -> T:
    """The result of a coroutine function; a cancellation from outside passes as it is.

    Raises:
        ToolRaised: The error is outside the `Exception` tree.
    """
    task = asyncio.current_task()
    try:
        return await function()
    except Exception:
        raise
    except BaseException as error:
        cancelled = isinstance(error, asyncio.CancelledError)
        if cancelled and task is not None and task.cancelling():
            raise
        if isinstance(error, GeneratorExit) and not _runs(task):
            raise  # the coroutine is being closed
        raise ToolRaised(error) from error


def original(error: BaseException) -> BaseException:
    """The error as the tool raised it."""
    return error.error if isinstance(error, ToolRaised) else error


def _runs(task: asyncio.Task[object] | None) -> bool:
    try:
        return task is asyncio.current_task()
    except RuntimeError:  # no loop is running
        return False

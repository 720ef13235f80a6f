"""Started runs: the promise of a result, and the events on the way to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import anyio

from agentrt.base.errors import NodeCancelled
from agentrt.base.ids import RunId
from agentrt.base.notifier import Notifier
from agentrt.runtime.run_events import RunEvent
from agentrt.runtime.run_watch import RunWatch

R_co = TypeVar("R_co", covariant=True)

_log = logging.getLogger("agentrt")


class StartedRun(Generic[R_co]):
    """A run under way in a task of its own; `runtime.start` makes it.

    Await it for the result, as often as needed. `async for event in run` gives its events: it ends
    with the run, or raises the run's error. Each event is handed out once. A reader that stops, or
    is slow, does not hold the run: the texts of a generation that wait are joined to one event, and
    of more than `RunOptions.unread_events` the oldest go; an `EventsLost` stands for them.

    As a block, `async with runtime.start(...) as run`, it ends with the block: a run that goes on
    then is cancelled, and its end is waited for.

    Example:
        >>> import anyio
        >>> from agentrt import Runtime, TextWritten, chat, program
        >>> from agentrt.testing import LoopClock, ScriptedBackend
        >>> @program
        ... async def greet(name: str) -> int:
        ...     return len(await chat().user("Greet ", name).generate())
        >>> async def main() -> int:
        ...     backend = ScriptedBackend(["Hello Ada!"], clock=LoopClock())
        ...     async with Runtime({"default": (backend, None)}) as runtime:
        ...         async with runtime.start(greet, "Ada") as run:
        ...             texts = [one.text async for one in run if isinstance(one, TextWritten)]
        ...             print("".join(texts))
        ...             return await run
        >>> anyio.run(main)
        Hello Ada!
        10

    Args:
        play: Runs the program under a watch.
        name: Name of the program.
        run_id: Id of the run.
        unread_events: Most events that wait to be read.

    Attributes:
        run_id: Id of the run.
    """

    def __init__(
        self,
        play: Callable[[RunWatch], Awaitable[R_co]],
        name: str,
        run_id: RunId,
        unread_events: int,
    ) -> None:
        self.run_id = run_id
        self._name = name
        self._watch = RunWatch(unread_events)
        self._value: Any = None
        self._error: Exception | SystemExit | None = None
        self._observed = False
        self._done = False
        self._ended = Notifier()
        self._cancelled_for = ""
        self._task = asyncio.get_running_loop().create_task(
            self._play(play), name=f"agentrt run of {name}"
        )
        self._task.add_done_callback(self._end)

    def __await__(self) -> Generator[Any, Any, R_co]:
        return self._result().__await__()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RunEvent:
        while True:
            event = self._watch.take()
            if event is not None:
                return event
            if self._done:
                self._raise_error()
                raise StopAsyncIteration
            await self._watch.changed.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cancel("its block was left")
        with anyio.CancelScope(shield=True):
            await self._wait()

    @property
    def done(self) -> bool:
        """Whether it has its result or its error."""
        return self._done

    @property
    def error(self) -> Exception | SystemExit | None:
        """The error of a run that failed or was cancelled, else None."""
        self._observed |= self._done
        return self._error

    def cancel(self, reason: str = "") -> None:
        """End it without its result: its nodes are cancelled, and awaiting raises `NodeCancelled`.

        A run that has ended stays as it is.
        """
        if not self._done:
            self._observed = True
            self._cancelled_for = self._cancelled_for or reason or "cancelled by its caller"
            self._task.cancel()

    async def _result(self) -> R_co:
        await self._wait()
        self._raise_error()
        value: R_co = self._value
        return value

    async def _wait(self) -> None:
        while not self._done:
            await self._ended.wait()

    def _raise_error(self) -> None:
        self._observed = True
        if self._error is not None:
            raise self._error

    async def _play(self, play: Callable[[RunWatch], Awaitable[R_co]]) -> None:
        try:
            self._value = await play(self._watch)
            self._watch.end(self._value)
        except SystemExit as error:  # asyncio would end its loop by it
            self._error = error

    def _end(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            reason = self._cancelled_for or "torn down"
            self._error = NodeCancelled(f"the run of {self._name}: {reason}", reason=reason)
        elif isinstance(error := task.exception(), Exception):
            self._error = error
        self._done = True
        self._ended.notify_all()
        self._watch.changed.notify_all()

    def __repr__(self) -> str:
        state = "running" if not self._done else "failed" if self._error else "done"
        return f"<StartedRun of {self._name} {self.run_id} {state}>"

    def __del__(self) -> None:
        if getattr(self, "_error", None) is not None and not self._observed:
            _log.error(
                "the run of %s failed, and nothing has awaited it",
                self._name,
                exc_info=self._error,
            )

"""Calls of one async function on many inputs, with a bound on those under way.

Inputs are taken one by one as calls end, so they may be endless or slow, and unread results hold
further calls back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable
from types import TracebackType
from typing import Generic, Self, TypeVar

import anyio
from anyio.abc import TaskGroup

from agentrt.base.errors import UsageError
from agentrt.base.notifier import Notifier
from agentrt.base.record import record

U = TypeVar("U")
R = TypeVar("R")


@record
class CallEnd(Generic[U, R]):
    """End of one call.

    Attributes:
        index: Index of its input.
        input: The input.
        value: The result; None with an error.
        error: Exception raised instead.
    """

    index: int
    input: U
    value: R | None = None
    error: Exception | SystemExit | None = None


class BoundedMap(Generic[U, R]):
    """Ends of calls, in the order of the inputs or in that of the ends; for one reader.

    A block around the reading (`async with`) owns the calls: leaving it cancels those under way,
    waits for their ends and closes an async generator of inputs. An error of the inputs themselves
    is raised behind the ends of the calls that have begun.

    Example:
        >>> import anyio
        >>> async def squares(numbers: list[int]) -> list[int | None]:
        ...     async def square(index: int, number: int) -> int:
        ...         return number * number
        ...     async with BoundedMap(square, numbers, concurrency=2) as ends:
        ...         return [end.value async for end in ends]
        >>> anyio.run(squares, [1, 2, 3])
        [1, 4, 9]

    Args:
        function: Called with index and input.
        inputs: The inputs.
        concurrency: Most calls under way.
        waiting: Most ends that are unread before no further call begins; None sets no limit.
        ordered: Whether ends come in the order of the inputs.
        stops_at_error: Whether the first error cancels the other calls and is raised; else errors
            are ends like others.
        on_end: Called with each end at once; what it raises ends the map.

    Attributes:
        running: Calls under way.

    Raises:
        UsageError: A bound is out of range.
    """

    def __init__(
        self,
        function: Callable[[int, U], Awaitable[R]],
        inputs: Iterable[U] | AsyncIterable[U],
        *,
        concurrency: int,
        waiting: int | None = None,
        ordered: bool = True,
        stops_at_error: bool = True,
        on_end: Callable[[CallEnd[U, R]], None] | None = None,
    ) -> None:
        if concurrency < 1:
            raise UsageError(f"concurrency={concurrency} is out of range", hint="Give 1 or more")
        if waiting is not None and waiting < 1:
            raise UsageError(f"waiting={waiting} is out of range", hint="Give 1 or more")
        self._function = function
        self._inputs = inputs
        self._concurrency = concurrency
        self._most = None if waiting is None else concurrency + waiting
        self._ordered = ordered
        self._stops_at_error = stops_at_error
        self._on_end = on_end
        self._tasks: TaskGroup | None = None
        self._scopes: set[anyio.CancelScope] = set()
        self._by_index: dict[int, CallEnd[U, R]] = {}
        self._arrived: deque[CallEnd[U, R]] = deque()
        self._next = 0
        self._fed = False
        self._stopping = False
        self._error: BaseException | None = None
        self._input_error: Exception | None = None
        self._changed = Notifier()
        self.running = 0

    async def __aenter__(self) -> Self:
        self._tasks = await anyio.create_task_group().__aenter__()
        self._start(self._feed)
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> CallEnd[U, R]:
        if self._tasks is None:
            raise UsageError("nothing runs yet", hint="Read it inside its own `async with` block")
        while True:
            if self._error is not None:
                raise self._error
            end = self._take()
            if end is not None:
                self._changed.notify_all()  # there is room for one more
                return end
            if self._fed and not self.running:
                if self._input_error is not None:
                    raise self._input_error
                raise StopAsyncIteration
            await self._changed.wait()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._tasks is not None
        self._stopping = True
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)  # the error of the block is raised as itself

    def _take(self) -> CallEnd[U, R] | None:
        if not self._ordered:
            return self._arrived.popleft() if self._arrived else None
        end = self._by_index.pop(self._next, None)
        self._next += end is not None
        return end

    async def _feed(self) -> None:
        inputs = _as_async(self._inputs)
        index = 0
        try:
            while True:
                while not self._has_room():
                    await self._changed.wait()
                try:
                    one = await anext(inputs)
                except StopAsyncIteration:
                    return
                except Exception as error:
                    self._input_error = error
                    return
                self.running += 1
                self._start(self._call, index, one)
                index += 1
        finally:
            self._fed = True
            self._changed.notify_all()
            with anyio.CancelScope(shield=True):
                await inputs.aclose()

    def _has_room(self) -> bool:
        if self._stopping:  # calls may end sooner than their feeder
            return False
        unread = len(self._by_index) + len(self._arrived)
        is_full = self._most is not None and self.running + unread >= self._most
        return self.running < self._concurrency and not is_full

    async def _call(self, index: int, one: U) -> None:
        end: CallEnd[U, R] | None = None
        try:
            end = CallEnd(index, one, await self._function(index, one))
        except (Exception, SystemExit) as error:  # asyncio would end its loop by a SystemExit
            end = CallEnd(index, one, error=error)
        finally:
            self.running -= 1
            if end is not None:
                self._note(end)
            self._changed.notify_all()

    def _note(self, end: CallEnd[U, R]) -> None:
        if self._ordered:
            self._by_index[end.index] = end
        else:
            self._arrived.append(end)
        if end.error is not None and self._stops_at_error:
            self._stop(end.error)
        if self._on_end is not None:
            try:
                self._on_end(end)
            except Exception as error:
                self._stop(error)

    def _stop(self, error: BaseException) -> None:
        """Cancel what is under way, without the reader; it gets the first error."""
        if self._error is None:
            self._error, self._stopping = error, True
            for scope in self._scopes:
                scope.cancel()

    def _start(self, function: Callable[..., Awaitable[None]], *args: object) -> None:
        """Start a task that `_stop` cancels: the scope of the group would cancel the reader too."""
        assert self._tasks is not None
        scope = anyio.CancelScope()
        self._scopes.add(scope)

        async def run() -> None:
            try:
                with scope:
                    await function(*args)
            finally:
                self._scopes.discard(scope)

        self._tasks.start_soon(run)


async def _as_async(inputs: Iterable[U] | AsyncIterable[U]) -> AsyncGenerator[U, None]:
    """The inputs as an async generator; closing it closes one that gives them."""
    if isinstance(inputs, AsyncIterable):
        try:
            async for one in inputs:
                yield one
        finally:
            if isinstance(inputs, AsyncGenerator):
                await inputs.aclose()
    else:
        for one in inputs:
            yield one

"""Runs of one program over many inputs."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Generator, Iterable, Sized
from functools import partial
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar

from agentrt.base.bounded_map import BoundedMap, CallEnd
from agentrt.base.errors import UsageError
from agentrt.base.record import record

U = TypeVar("U")
R = TypeVar("R")
U_co = TypeVar("U_co", covariant=True)
T_co = TypeVar("T_co", covariant=True)

MapErrors = Literal["raise", "collect"]
MapOrder = Literal["inputs", "ends"]


@record
class MapProgress:
    """Count of the runs of a `RunMap`.

    `on_progress` is called with one at the end of each run.

    Example:
        >>> from agentrt import MapProgress
        >>> progress = MapProgress(done=3, failed=1, running=2, total=10)
        >>> f"{progress.done + progress.failed} of {progress.total}"
        '4 of 10'

    Attributes:
        done: Runs that ended with a value.
        failed: Runs that ended with an error.
        running: Runs under way.
        total: Number of inputs; None if they have no length.
    """

    done: int = 0
    failed: int = 0
    running: int = 0
    total: int | None = None


@record
class MapResult(Generic[U_co, T_co]):
    """End of one run of `runtime.map(..., errors="collect")`.

    Example:
        >>> from agentrt import MapResult
        >>> results = [MapResult(0, "a.txt", 12), MapResult(1, "b.txt", None, OSError("gone"))]
        >>> [result.value for result in results if result.error is None]
        [12]
        >>> [f"{result.input}: {result.error}" for result in results if result.error is not None]
        ['b.txt: gone']

    Attributes:
        index: Index of the input.
        input: The input.
        output: The result of the program; None with an error.
        error: Exception of the run, a `sys.exit` of the program included; None if it gave a result.
    """

    index: int
    input: U_co
    output: T_co | None
    error: Exception | SystemExit | None = None

    @property
    def value(self) -> T_co:
        """The result.

        Raises:
            Exception: The run has failed; this is its own error.
        """
        if self.error is not None:
            raise self.error
        value: Any = self.output
        return value  # type: ignore[no-any-return]


class RunMap(Generic[T_co]):
    """Runs of one program over many inputs; `runtime.map` makes it.

    Await it for the list of all results. To read results as they come, use it as a block:
    `async with runtime.map(...) as results: async for result in results: ...`. Leaving the block
    cancels the runs that still go on and waits for their ends.

    Example:
        >>> import anyio
        >>> from agentrt import Runtime, chat, program
        >>> from agentrt.testing import LoopClock, ScriptedBackend
        >>> @program
        ... async def kind(mail: str) -> str:
        ...     return await chat().user("Sort: ", mail).generate()
        >>> async def main() -> list[str]:
        ...     backend = ScriptedBackend(lambda request, prompt: "order", clock=LoopClock())
        ...     async with Runtime({"default": (backend, None)}) as runtime:
        ...         return await runtime.map(kind, ["3 lamps please", "2 more"], concurrency=2)
        >>> anyio.run(main)
        ['order', 'order']

    Args:
        run: Runs the program on an input.
        result_of: Makes what a reader gets of the end of a run.
        inputs: The inputs.
        concurrency: Most runs at once.
        errors: With "raise" the first error ends all runs; with "collect" it is a result.
        order: Order of the results.
        waiting: Most unread results in a block before no further run begins; None takes as many
            as run at once.
        on_progress: Called at the end of each run; what it raises ends all runs.

    Attributes:
        progress: Count of the runs so far.

    Raises:
        UsageError: A setting is unknown or out of range.
    """

    def __init__(
        self,
        run: Callable[[Any], Awaitable[Any]],
        result_of: Callable[[CallEnd[Any, Any]], T_co],
        inputs: Iterable[Any] | AsyncIterable[Any],
        *,
        concurrency: int,
        errors: MapErrors,
        order: MapOrder,
        waiting: int | None,
        on_progress: Callable[[MapProgress], None] | None,
    ) -> None:
        if errors not in ("raise", "collect"):
            raise UsageError(f"errors={errors!r} is unknown", hint="Give 'raise' or 'collect'")
        if order not in ("inputs", "ends"):
            raise UsageError(f"order={order!r} is unknown", hint="Give 'inputs' or 'ends'")
        if not isinstance(inputs, Iterable | AsyncIterable) or isinstance(inputs, str):
            raise UsageError(
                f"inputs of map are {type(inputs).__name__}",
                hint="Give a list, or another iterable or async iterable, with one item a run",
            )
        self._run = run
        self._result_of = result_of
        self._on_progress = on_progress
        self.progress = MapProgress(total=len(inputs) if isinstance(inputs, Sized) else None)
        self._waiting: int | None = concurrency if waiting is None else waiting
        self._make_calls = partial(
            BoundedMap[Any, Any],
            self._call,
            inputs,
            concurrency=concurrency,
            ordered=order == "inputs",
            stops_at_error=errors == "raise",
            on_end=self._note_end,
        )
        self._make_calls(waiting=self._waiting)  # refuses bounds that are out of range
        self._calls: BoundedMap[Any, Any] | None = None

    def __await__(self) -> Generator[Any, Any, list[T_co]]:
        return self._all().__await__()

    async def __aenter__(self) -> Self:
        if self._calls is not None:
            raise UsageError("these runs were started before", hint="Call `runtime.map` again")
        self._calls = self._make_calls(waiting=self._waiting)
        await self._calls.__aenter__()
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T_co:
        if self._calls is None:
            raise UsageError(
                "these runs were not started",
                hint="Use `async with runtime.map(...) as results`, or await them all",
            )
        return self._result_of(await anext(self._calls))

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._calls is not None
        await self._calls.__aexit__(kind, error, trace)

    async def _all(self) -> list[T_co]:
        self._waiting = None  # all results are kept, so none holds a run back
        async with self:
            return [result async for result in self]

    async def _call(self, index: int, one: Any) -> Any:
        try:
            return await self._run(one)
        except Exception as error:
            error.add_note(f"in input {index} of map")
            raise

    def _note_end(self, end: CallEnd[Any, Any]) -> None:
        failed = end.error is not None
        assert self._calls is not None
        before, running = self.progress, self._calls.running
        self.progress = MapProgress(
            before.done + (not failed), before.failed + failed, running, before.total
        )
        if self._on_progress is not None:
            self._on_progress(self.progress)


def value_of(end: CallEnd[Any, R]) -> R:
    """The value of a run, for `errors="raise"`, where every end has one."""
    value: Any = end.value
    return value  # type: ignore[no-any-return]


def map_result(end: CallEnd[U, R]) -> MapResult[U, R]:
    """The end of a run, for `errors="collect"`."""
    return MapResult(end.index, end.input, end.value, end.error)

"""Ways to start runs of programs: awaited, in a task of their own, or one for each input."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, TypeVar, overload

from agentrt.base.errors import UsageError
from agentrt.base.ids import RunId
from agentrt.program import Node, Program
from agentrt.runtime.options import RunOptions

if TYPE_CHECKING:
    from agentrt.runtime.run_map import MapErrors, MapOrder, MapProgress, MapResult, RunMap
    from agentrt.runtime.run_watch import RunWatch
    from agentrt.runtime.started_run import StartedRun

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
U = TypeVar("U")
U_contra = TypeVar("U_contra", contravariant=True)


class ProgramOfOne(Protocol[U_contra, R_co]):
    """A program that can be called with one argument."""

    @property
    def source(self) -> str:
        """`file:function`."""
        ...

    def __call__(self, one: U_contra, /) -> Node[R_co]:
        """Start it as a part of the active run."""
        ...


class RunStarts(ABC):
    """Starts runs of programs on a runtime; `Runtime`, and a runtime with options, are such."""

    __slots__ = ()

    async def run(self, program: Program[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a program and give its result.

        Raises:
            UsageError: The arguments do not fit, or the runtime is not open.
            SystemExit: A program called `sys.exit`; all nodes have ended first.
            Exception: The program's own exception.
        """
        return await self._play(self._options(), program, args, kwargs, None)

    def start(self, program: Program[P, R], /, *args: P.args, **kwargs: P.kwargs) -> StartedRun[R]:
        """Start a run in a task of its own, for its events or to await it later.

        Use it as a block, `async with runtime.start(...) as run`, if the run should not outlive the
        code that reads it, such as the request of a client. See `StartedRun`.

        Raises:
            UsageError: The arguments do not fit, or an option is out of range.
        """
        from agentrt.runtime.started_run import StartedRun  # for callers that read events

        options = self._options()
        if options.unread_events < 1:
            raise UsageError(
                f"unread_events={options.unread_events} is out of range", hint="Give 1 or more"
            )
        program.work(*args, **kwargs)  # refuses arguments that do not fit, on the caller's line
        run_id = options.run_id or RunId(secrets.token_hex(8))
        options = replace(options, run_id=run_id)

        async def play(watch: RunWatch) -> R:
            return await self._play(options, program, args, kwargs, watch)

        return StartedRun(play, program.name, run_id, options.unread_events)

    @overload
    def map(
        self,
        program: ProgramOfOne[U, R],
        inputs: Iterable[U] | AsyncIterable[U],
        /,
        *,
        concurrency: int = 8,
        errors: Literal["raise"] = "raise",
        order: MapOrder = "inputs",
        waiting: int | None = None,
        on_progress: Callable[[MapProgress], None] | None = None,
    ) -> RunMap[R]: ...
    @overload
    def map(
        self,
        program: ProgramOfOne[U, R],
        inputs: Iterable[U] | AsyncIterable[U],
        /,
        *,
        concurrency: int = 8,
        errors: Literal["collect"],
        order: MapOrder = "inputs",
        waiting: int | None = None,
        on_progress: Callable[[MapProgress], None] | None = None,
    ) -> RunMap[MapResult[U, R]]: ...
    def map(
        self,
        program: ProgramOfOne[U, R],
        inputs: Iterable[U] | AsyncIterable[U],
        /,
        *,
        concurrency: int = 8,
        errors: MapErrors = "raise",
        order: MapOrder = "inputs",
        waiting: int | None = None,
        on_progress: Callable[[MapProgress], None] | None = None,
    ) -> RunMap[Any]:
        """Run a program once for each input, several at once.

        Inputs are taken as runs end, so an endless or slow iterable is read no further than
        needed. Await the result for a list, or read results in a block; see `RunMap`.

        Args:
            program: The program, called with one input; `bind` fixes its other arguments.
            inputs: The inputs.
            concurrency: Most runs at once.
            errors: With "raise" the first error cancels the other runs and is raised; with
                "collect" each result is a `MapResult`, which has the value or the error.
            order: Order of the results: that of the inputs, or that in which the runs end.
            waiting: Most results in a block that wait to be read, or for an earlier one, before no
                further run begins; None takes as many as run at once.
            on_progress: Called at the end of each run.

        Raises:
            UsageError: A setting is unknown or out of range, or the program needs more arguments.
            Exception: Raised by reading: the first error of a run, or that of the inputs.
        """
        from agentrt.runtime.run_map import RunMap, map_result, value_of  # for maps

        if not isinstance(program, Program):
            raise UsageError(f"map runs programs, not {program!r}", hint="Decorate it by @program")
        program.work(None)  # refuses a program that cannot be called with one argument
        options = self._options()
        if options.run_id is not None:
            raise UsageError("all runs of map would have one run_id", hint="Leave run_id out")

        async def run(one: Any) -> Any:
            return await self._play(options, program, (one,), {}, None)

        return RunMap(
            run,
            map_result if errors == "collect" else value_of,
            inputs,
            concurrency=concurrency,
            errors=errors,
            order=order,
            waiting=waiting,
            on_progress=on_progress,
        )

    @abstractmethod
    def _options(self) -> RunOptions:
        """Options of each run that is started here."""

    @abstractmethod
    async def _play(
        self,
        options: RunOptions,
        program: Program[..., R],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        watch: RunWatch | None,
    ) -> R:
        """Run a program and give its result; a watch is told what happens."""

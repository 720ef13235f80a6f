"""Programs: async functions that make nodes, and the decorator that makes programs of them."""

from __future__ import annotations

import inspect
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from agentrt.base.config import Device
from agentrt.base.engine_selection import EngineSelection
from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.program import default_runner
from agentrt.program.call_site import call_site, shorten
from agentrt.program.chat import Chat
from agentrt.program.node import Node, NodeWork
from agentrt.program.prompt_prefix import inputs_of
from agentrt.program.scope import current_scope

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@record
class ProgramWork(NodeWork):
    """One call of a program.

    Attributes:
        body: Makes the coroutine of the call.
        inputs: Nodes among the arguments.
        deadline_s: Seconds that the call may take, or None.
        source: `file:function`.
        fn: The function.
        arguments: The arguments by name.
    """

    body: Callable[[], Awaitable[Any]]
    inputs: tuple[Node[Any], ...]
    deadline_s: float | None
    source: str
    fn: Callable[..., Any] | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def within(self, deadline_s: float) -> ProgramWork:
        """The same call under another deadline."""
        return replace(self, deadline_s=deadline_s)


class Program(Generic[P, R_co]):
    """An async function that makes nodes; `@program` makes one.

    Inside a run, a call gives a node like any other. `run` starts one from synchronous code,
    `await runtime.run(program, ...)` from async code.

    Example:
        >>> from agentrt import chat, program
        >>> @program
        ... async def river() -> str:
        ...     return await chat().user("Name a river.").generate()
        >>> @program
        ... async def shout() -> str:
        ...     return (await river()).upper()
        >>> shout.run()
        'NILE'

    Attributes:
        fn: The function.
        deadline_s: Seconds that one call may take, or None.
        name: Name of the function.

    Args:
        fn: The function.
        deadline_s: Seconds that one call may take, or None.
        fixed: Arguments of each call; None fixes none.

    Raises:
        UsageError: The function is not async, or the deadline is not above 0.
    """

    def __init__(
        self,
        fn: Callable[P, Coroutine[Any, Any, R_co]],
        deadline_s: float | None,
        fixed: Mapping[str, Any] | None = None,
    ) -> None:
        if not inspect.iscoroutinefunction(fn):
            raise UsageError(
                f"program {getattr(fn, '__name__', fn)!r} is no async function",
                hint="Write `async def`",
                where=call_site(),
            )
        if deadline_s is not None and not deadline_s > 0:
            raise UsageError(
                f"deadline={deadline_s!r} is out of range",
                hint="Give seconds above 0",
                where=call_site(),
            )
        self.fn = fn
        self.deadline_s = deadline_s
        self.name = fn.__name__
        self._signature = inspect.signature(fn)
        self._fixed = fixed or {}
        free = [one for one in self._signature.parameters.values() if one.name not in self._fixed]
        self._free = self._signature.replace(parameters=free) if self._fixed else self._signature
        self._file = inspect.getfile(fn)
        self.__doc__ = fn.__doc__
        self.__name__ = fn.__name__
        self.__module__ = fn.__module__
        self.__wrapped__ = fn

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Node[R_co]:
        """Start it as a part of the active run.

        Raises:
            NoRun: No run is active.
            UsageError: The arguments do not fit the signature.
        """
        scope = current_scope(f"program {self.name}")
        node: Node[R_co] = Node(
            scope,
            scope.next_id(self.name),
            "program",
            self.name,
            call_site(),
            self.work(*args, **kwargs),
        )
        scope.adopt(node)
        return node

    def run(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run it from synchronous code.

        The engine is the one that `AGENTRT_ENGINE`, `AGENTRT_MODEL` and `AGENTRT_DEVICE` name, as
        for the command line; else the one that ships with the package.

        Raises:
            UsageError: An event loop is running already (use `await runtime.run(...)` there), or
                the arguments do not fit the signature.
            Exception: The program's own exception.
        """
        return cast(R_co, default_runner.default_runner()(self, args, kwargs, None))

    def with_engine(
        self,
        engine: str | None = None,
        *,
        model: str | None = None,
        api_key: str | None = None,
        device: Device | None = None,
    ) -> ProgramOnEngine[P, R_co]:
        """The same program with an engine of its own for `run`.

        Example:
            ```python
            finance.with_engine("http://localhost:8000", model="qwen").run("AAPL or IBM?")
            ```

        Args:
            engine: URL of a server, or `embedded`; None takes the environment's.
            model: Checkpoint directory for the embedded engine, name of the model for a server;
                None takes the environment's.
            api_key: `env:NAME`, the variable that holds the server's key.
            device: Device of the embedded engine; None takes the environment's.

        Raises:
            UsageError: A device in the environment is unknown.
        """
        selection = EngineSelection.from_environment(os.environ)
        return ProgramOnEngine(self, selection.overridden(engine, model, api_key, device))

    def work(self, *args: P.args, **kwargs: P.kwargs) -> ProgramWork:
        """The work of one call.

        Raises:
            UsageError: The arguments do not fit the signature.
        """
        try:
            bound = self._free.bind(*args, **kwargs)
        except TypeError as error:
            raise self._misfit(str(error)) from None
        if self._fixed:
            bound = self._completed(bound)
        fn: Callable[..., Awaitable[Any]] = self.fn
        positional: tuple[Any, ...] = bound.args if self._fixed else args
        named: dict[str, Any] = bound.kwargs if self._fixed else kwargs
        inputs: list[Node[Any]] = []
        for value in (*positional, *named.values()):
            if isinstance(value, Node):
                inputs.append(value)
            elif isinstance(value, Chat):
                inputs.extend(inputs_of(value))
        return ProgramWork(
            partial(fn, *positional, **named),
            tuple(inputs),
            self.deadline_s,
            self.source,
            self.fn,
            bound.arguments,
        )

    def bind(self, **fixed: Any) -> Program[..., R_co]:
        """This program with some arguments fixed, as for `runtime.map`.

        Example:
            >>> from agentrt import chat, program
            >>> @program
            ... async def name(kind: str, language: str) -> str:
            ...     return await chat().user("Name a ", kind, " in ", language).generate()
            >>> name.bind(language="English").run("river")
            'Nile'

        Raises:
            UsageError: The program has no such parameter.
        """
        for name in fixed:
            if name not in self._free.parameters:
                raise self._misfit(f"no parameter {name!r} is free")
        return Program(self.fn, self.deadline_s, {**self._fixed, **fixed})

    def _completed(self, bound: inspect.BoundArguments) -> inspect.BoundArguments:
        """Arguments of a call, with those that are fixed."""
        given = {**bound.arguments, **self._fixed}
        in_order = {name: given[name] for name in self._signature.parameters if name in given}
        return inspect.BoundArguments(self._signature, OrderedDict(in_order))

    def _misfit(self, reason: str) -> UsageError:
        return UsageError(
            f"program {self.name}: {reason}",
            hint=f"Call it as {self.name}{self._free}",
            where=call_site(),
        )

    @property
    def source(self) -> str:
        """`file:function`, relative to the working directory."""
        return f"{shorten(self._file)}:{self.name}"

    @property
    def site(self) -> str:
        """`file:line` of the function."""
        return f"{shorten(self._file)}:{self.fn.__code__.co_firstlineno}"

    def __repr__(self) -> str:
        return f"<Program {self.name}>"


@dataclass(frozen=True, slots=True)
class ProgramOnEngine(Generic[P, R_co]):
    """A program and the engine on which `run` plays it.

    Attributes:
        program: The program.
        engine: The engine.
    """

    program: Program[P, R_co]
    engine: EngineSelection

    def run(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run it from synchronous code, on this engine; for errors see `Program.run`."""
        runner = default_runner.default_runner()
        return cast(R_co, runner(self.program, args, kwargs, self.engine))


class ProgramOptions:
    """The options of `@program(...)`, which make a program of a function."""

    def __init__(self, deadline_s: float | None) -> None:
        self.deadline_s = deadline_s

    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Program[P, R]:
        return Program(fn, self.deadline_s)


@overload
def program(fn: Callable[P, Coroutine[Any, Any, R]], /) -> Program[P, R]: ...
@overload
def program(*, deadline: float | None = None) -> ProgramOptions: ...
def program(fn: Any = None, /, *, deadline: float | None = None) -> Any:
    """Make a program of an async function: `@program` or `@program(deadline=8.0)`.

    Use it for each function that makes nodes and is called as a unit: its calls are nodes of the
    run, with a deadline, a place in traces, and learned times of their own.

    Example:
        >>> from agentrt import chat, program
        >>> @program(deadline=8.0)
        ... async def answer(question: str) -> str:
        ...     return await chat("Be brief.").user(question).generate(max_tokens=60)
        >>> answer.run("Name a river.")
        'Nile'

    Args:
        fn: The function.
        deadline: Seconds for one call, which then ends with `DeadlineExceeded`.

    Raises:
        UsageError: The function is not async, or the deadline is not above 0.
    """
    return ProgramOptions(deadline) if fn is None else Program(fn, deadline)

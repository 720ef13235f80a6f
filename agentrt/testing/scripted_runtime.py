"""A runtime for tests: programs run on scripted engines, in virtual time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from agentrt.analysis import RunRecord
from agentrt.base.config import RunConfig, SchedulerConfig
from agentrt.base.errors import AgentrtError
from agentrt.base.prices import Prices
from agentrt.program import Program
from agentrt.program.default_runner import default_runner, set_default_runner
from agentrt.program.users_part import users_part, without_inner_frames
from agentrt.protocol.backend import Backend
from agentrt.protocol.events import Observer
from agentrt.protocol.priced_backend import PricedBackend
from agentrt.runtime import RunOptions, Runtime
from agentrt.testing.clock import LoopClock
from agentrt.testing.fake_backend import ScriptedBackend
from agentrt.testing.loop import run_virtual
from agentrt.testing.played_run import ContentRecorder, PlayedRun
from agentrt.testing.script import Answers, Script
from agentrt.testing.seen import SeenByBackend
from agentrt.testing.spelling import WordSpelling

if TYPE_CHECKING:
    from agentrt.prompt import Codec

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class ScriptedRuntime:
    """Runs programs on scripted engines; the fixture `scripted` makes it.

    Each call of `run` opens a runtime of its own on a loop with virtual time, so it works in any
    test, one inside a running event loop included. The script goes on over all of them.

    Example:
        >>> from agentrt import chat, program
        >>> from agentrt.testing import Reply, ScriptedRuntime
        >>> @program
        ... async def river(country: str) -> str:
        ...     return await chat().user("Name a river of ", country).generate(name="river")
        >>> engine = ScriptedRuntime({"river": Reply("Nile", prefill_s=0.5, decode_s=1.5)})
        >>> run = engine.run(river, "Egypt")
        >>> run.value, run.compound_s, run.critical_path
        ('Nile', 2.0, ['river'])

    Args:
        script: The answers: by name of the node, in order, or a function of request and prompt.
        models: Scripts of more engines, by the role that `model=` names.
        prefill_tokens_per_s: Speed of prompts.
        decode_tokens_per_s: Steps a second; each running generation gets one token a step.
        max_running: Generations in one step of an engine; others wait in its queue.
        prices: Prices of the engines.
        codec: Codec of a model, so that prompts are its tokens; None sends messages.
        options: Options of each run.
        config: Defaults for all runs.
        scheduler: How runs share the engines.
        on_ask: Answers the programs' questions to a person.
        observers: More observers.

    Attributes:
        runs: All runs that have ended, in the order of their ends.
        seen: Calls of the engine without a name.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        models: Mapping[str, Script] | None = None,
        prefill_tokens_per_s: float = math.inf,
        decode_tokens_per_s: float = math.inf,
        max_running: int = 64,
        prices: Prices | None = None,
        codec: Codec | None = None,
        options: RunOptions | None = None,
        config: RunConfig | None = None,
        scheduler: SchedulerConfig | None = None,
        on_ask: Callable[[Any], Any] | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        scripts = {"default": script, **(models or {})}
        self._answers = {role: Answers(one) for role, one in scripts.items()}
        self._engine = partial(
            ScriptedBackend,
            prefill_tokens_per_s=prefill_tokens_per_s,
            decode_tokens_per_s=decode_tokens_per_s,
            max_running=max_running,
            codec=codec,
            seeds=True,
        )
        self._codec = codec
        self._prices = prices
        self._options = replace(options or RunOptions())
        if on_ask is not None:
            self._options = replace(self._options, on_ask=on_ask)
        self._config = config
        self._scheduler = scheduler
        self._observers = tuple(observers)
        self.runs: list[PlayedRun] = []
        self.seen = SeenByBackend()
        self._problems: dict[str, list[AgentrtError]] = {}

    def run(self, program: Program[P, R], /, *args: P.args, **kwargs: P.kwargs) -> PlayedRun:
        """Run a program to its end, in virtual time.

        Raises:
            Exception: The program's own exception; `runs[-1]` has the run.
            AgentrtError: The script is at fault: it lacks an answer, or gives one that no engine
                could give. Programs that carry on after a failure hide none of these.
        """
        __tracebackhide__ = True
        run = self._on_loop(lambda runtime: self._played(runtime, program, args, kwargs))
        self._check()
        if run.error is not None:
            error = without_inner_frames(run.error)  # and of its causes
            raise error.with_traceback(users_part(error.__traceback__))
        return run

    def play(self, body: Callable[[Runtime], Awaitable[T]]) -> T:
        """The result of `body(runtime)` in virtual time, for several runs at once.

        Args:
            body: Coroutine function; it gets the open runtime.

        Raises:
            Exception: The exception of `body`.
            AgentrtError: The script is at fault, as in `run`.
        """
        __tracebackhide__ = True
        result = self._on_loop(body)
        self._check()
        return result

    def _on_loop(self, body: Callable[[Runtime], Awaitable[T]]) -> T:
        return outside_loop(partial(run_virtual, partial(self._main, body)))

    def _check(self) -> None:
        """Raise the first fault of the script, if there is one."""
        __tracebackhide__ = True
        for problems in self._problems.values():
            for problem in problems:
                raise problem.with_traceback(None) from None

    @contextmanager
    def as_default(self) -> Iterator[None]:
        """A block in which `program.run(...)` of the code under test runs here too."""
        before = default_runner()

        def runner(program: Any, args: Any, kwargs: Any, _engine: object) -> Any:
            return self.run(program, *args, **kwargs).value

        set_default_runner(runner)
        try:
            yield
        finally:
            set_default_runner(before)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Runtime]:
        """An open runtime on the running event loop, for tests that are `async` themselves.

        Time is that of the loop: virtual in tests marked `agentrt`, real in others.

        Raises:
            AgentrtError: The script is at fault, as in `run`.
        """
        __tracebackhide__ = True
        async with self._opened() as runtime:
            yield runtime
        self._check()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Runtime]:
        clock = LoopClock(asyncio.get_running_loop())
        backends = {role: self._backend(role, clock) for role in self._answers}
        runtime = Runtime(
            {role: (one, self._codec) for role, one in backends.items()},
            clock=clock,
            observers=[ContentRecorder(self.note), *self._observers],
            config=self._config,
            scheduler=self._scheduler,
        )
        async with runtime:
            yield runtime

    def spelling_of(self, role: str) -> WordSpelling:
        """Tokens of the engine of a role."""
        return WordSpelling()

    def _backend(self, role: str, clock: LoopClock) -> Backend:
        backend = self._engine(self._answers[role], clock=clock, spelling=self.spelling_of(role))
        self._problems[role] = backend.seen.problems
        if role == "default":
            self.seen = backend.seen
        if self._prices is not None:
            return PricedBackend(backend, self._prices, clock)
        return backend

    async def _main(self, body: Callable[[Runtime], Awaitable[T]]) -> T:
        async with self._opened() as runtime:
            return await body(runtime)

    async def _played(
        self,
        runtime: Runtime,
        program: Program[Any, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> PlayedRun:
        emitted: list[str] = []
        options = self._options
        if options.on_emit is None:
            options = replace(options, on_emit=emitted.append)
        before = len(self.runs)
        value: Any = None
        raised: Exception | SystemExit | None = None
        try:
            value = await runtime.with_options(options).run(program, *args, **kwargs)
        except (Exception, SystemExit) as error:
            raised = error
        made = self.runs[before:]
        run = made[-1] if made else PlayedRun(RunRecord())  # its arguments were refused
        run.value, run.error, run.emitted = value, raised, "".join(emitted)
        return run

    def note(self, record: RunRecord) -> None:
        """Add a run that has ended."""
        self.runs.append(PlayedRun(record))


def outside_loop(function: Callable[[], T]) -> T:
    """The result of a function that runs an event loop, for callers that may be inside of one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        is_inside = False
    else:
        is_inside = True
    if not is_inside:
        return function()
    with ThreadPoolExecutor(1, "agentrt test") as threads:
        return threads.submit(function).result()

"""A runtime: engines, one loop, and the runs that share them."""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, cast

import anyio
from anyio.abc import TaskGroup

from agentrt.base.clock import Clock, MonotonicClock
from agentrt.base.config import RunConfig, SchedulerConfig
from agentrt.base.errors import AgentrtError, UsageError, record_of
from agentrt.base.ids import RunId
from agentrt.base.run_progress import RunProgress
from agentrt.program import Node, Program, ProgramWork, Scope, in_scope
from agentrt.program.output_types import declared_constraints
from agentrt.prompt import Codec
from agentrt.protocol.backend import Backend
from agentrt.protocol.events import Observer, Outcome, RunFinished, RunStarted
from agentrt.runtime.effects import Effects
from agentrt.runtime.kv_hints.retention import KvRetention
from agentrt.runtime.loop import Loop
from agentrt.runtime.model_role import ModelRole
from agentrt.runtime.observers import Observers
from agentrt.runtime.options import RunOptions
from agentrt.runtime.progress import so_far
from agentrt.runtime.requests.coalescing import Coalescing
from agentrt.runtime.requests.dispatch import RequestDispatcher
from agentrt.runtime.requests.overflow import ContextWindows
from agentrt.runtime.requests.prompt_revision import PromptRevisions
from agentrt.runtime.requests.results import ResultDelivery
from agentrt.runtime.run import Run
from agentrt.runtime.tasks.runner import TaskRunner
from agentrt.runtime.tasks.speculation import Speculation
from agentrt.scheduler import Estimates, State
from agentrt.scheduler.estimates.call_patterns import CallPatterns

P = ParamSpec("P")
R = TypeVar("R")
_RUN_ID = re.compile(r"[0-9a-f]{16}")


class Runtime:
    """Runs programs on engines; several runs at once share them.

    Example:
        ```python
        async with Runtime({"default": (backend, codec)}) as runtime:
            report = await runtime.run(finance, "Which returned more, AAPL or IBM?")
        ```

    Args:
        backends: By role, with the codec of their model; `default` serves what names no model.
        clock: That everything reads.
        observers: See every event.
        config: For runs that do not say otherwise.
        scheduler: How runs share the engines.
        estimates: What past runs told; they go on learning here.
        patterns: Which tools past runs called next; the same.
        on_run_ended: Called when a run is over and what it taught is known; must return at once.
        state: What another runtime with these roles and settings knew when it was closed; its
            estimates go on learning. None begins anew.
    """

    def __init__(
        self,
        backends: Mapping[str, tuple[Backend, Codec | None]],
        *,
        clock: Clock | None = None,
        observers: Sequence[Observer] = (),
        config: RunConfig | None = None,
        scheduler: SchedulerConfig | None = None,
        estimates: Estimates | None = None,
        patterns: CallPatterns | None = None,
        on_run_ended: Callable[[], None] | None = None,
        state: State | None = None,
    ) -> None:
        if "default" not in backends:
            raise UsageError("no engine has the role 'default'", hint="Name one of them so")
        self._clock = clock or MonotonicClock()
        self._config = config or RunConfig()
        self.scheduler = scheduler or SchedulerConfig()
        known = Estimates() if state is None else state.estimates
        self.estimates = known if estimates is None else estimates
        self._state = state
        self.patterns = CallPatterns() if patterns is None else patterns
        self._on_run_ended = on_run_ended
        self._engines = {
            role: ModelRole(role, backend, codec) for role, (backend, codec) in backends.items()
        }
        self.observers = Observers(observers)
        self._runs: dict[RunId, Run] = {}
        self._loop: Loop | None = None
        self._speculation: Speculation | None = None
        self._stack: AsyncExitStack | None = None

    @property
    def engines(self) -> Mapping[str, ModelRole]:
        """By role."""
        return self._engines

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for engine in self._engines.values():
                stack.push_async_callback(_close, engine.backend)
                await engine.backend.start()
                engine.check()
                engine.prewarm(declared_constraints())
            tasks = await stack.enter_async_context(anyio.create_task_group())
            self._loop = self._make_loop()
            stack.callback(self._loop.close)
            for engine in self._engines.values():
                self._serve(tasks, stack, partial(_read, engine.backend, self._loop))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._stack is not None
        if self._loop is not None and self._runs:
            closed = UsageError(
                "the runtime was closed while this run was under way",
                hint="Await every run inside `async with ... as runtime`",
            )
            self._loop.end(closed)
        self._loop = None
        await self._stack.aclose()

    async def run(self, program: Program[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a program and give its result.

        Raises:
            UsageError: Its arguments do not fit, or the runtime was not entered.
            SystemExit: A program called `sys.exit`; all that was under way has ended first.
            Exception: What the program raises, as itself.
        """
        return await self._run(RunOptions(), program, args, kwargs)

    def with_options(self, options: RunOptions) -> ConfiguredRuntime:
        """The same runtime, for runs with options of their own."""
        return ConfiguredRuntime(self, options)

    async def _run(
        self,
        options: RunOptions,
        program: Program[P, R],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> R:
        loop = self._loop
        if loop is not None and loop.ended is not None:
            raise loop.ended
        if loop is None:
            raise UsageError(
                "the runtime is not open", hint="Use it as `async with ... as runtime`"
            )
        if self.scheduler.policy == "oracle" and options.true_service_s is None:
            raise UsageError(
                "the policy 'oracle' has to know what each run will need",
                hint="Replays tell it by RunOptions(true_service_s=...); else use the policy 'rwa'",
            )
        work = self._within(options, program.work(*args, **kwargs))
        run_id = self._new_id(options)
        seed = self._config.seed if options.seed is None else options.seed
        now_s, unix_ns = self._clock.now_s(), self._clock.unix_ns()
        loop.post(
            RunStarted(
                run_id,
                program.name,
                work.source,
                now_s,
                unix_ns,
                work.deadline_s,
                seed,
                options.tenant,
                options.priority,
                options.true_service_s,
            )
        )
        error: BaseException | None = None
        result: Any = None
        run = self._runs[run_id] = self._new_run(run_id, seed, options, loop)
        scope = Scope(run, "", None)
        node: Node[R] = Node(
            scope, scope.next_id(program.name), "program", program.name, program.site, work
        )
        run.root = node

        async def body() -> R:
            scope.adopt(node)
            return await node

        try:
            result = await in_scope(scope, body)
        except BaseException as raised:
            error = raised
        error = run.leaving or error
        if self._speculation is not None:
            self._speculation.run_ended(run_id)
        await loop.seen(self._end_of(run, error))
        del self._runs[run_id]
        loop.retention.run_ended(run_id)
        await run.under_way.ended()
        if self._on_run_ended is not None:
            self._on_run_ended()
        if error is not None:
            raise error
        return cast(R, result)

    def _within(self, options: RunOptions, work: ProgramWork) -> ProgramWork:
        """The work under the run's own deadline, where that is the shorter one."""
        deadline_s = options.deadline_s
        if deadline_s is None:
            deadline_s = self._config.deadline_s
        if deadline_s is None:
            return work
        if not deadline_s > 0:
            raise UsageError(
                f"deadline_s={deadline_s:g} is out of range", hint="Give seconds above 0"
            )
        return work.within(min(deadline_s, work.deadline_s or deadline_s))

    def _end_of(self, run: Run, error: BaseException | None) -> RunFinished:
        now_s = self._clock.now_s()
        if error is None:
            return RunFinished(run.run_id, "ok", now_s)
        outcome: Outcome = "failed" if isinstance(error, Exception) else "cancelled"
        return RunFinished(run.run_id, outcome, now_s, record_of(error))

    def _new_id(self, options: RunOptions) -> RunId:
        run_id = options.run_id or RunId(secrets.token_hex(8))
        if not _RUN_ID.fullmatch(run_id):
            raise UsageError(f"run id {run_id!r} is malformed", hint="Give 16 hex digits")
        if run_id in self._runs:
            raise UsageError(f"run id {run_id!r} is in use", hint="Give another one")
        return run_id

    def _new_run(self, run_id: RunId, seed: int, options: RunOptions, loop: Loop) -> Run:
        return Run(
            run_id,
            seed,
            options,
            clock=self._clock,
            engines=self._engines,
            post=loop.post,
            look_back=self._so_far,
            captures_content=self._config.capture_content or self.observers.want_content,
        )

    def _so_far(self, run: Run) -> RunProgress:
        known = self._loop.state.runs.get(run.run_id) if self._loop is not None else None
        return RunProgress() if known is None else so_far(known, run.nodes, self._clock.now_s())

    def _make_loop(self) -> Loop:
        incomplete = [
            role
            for role, engine in self._engines.items()
            if engine.capabilities.holes and engine.codec is not None
        ]
        threads = self._config.max_concurrent_tools
        state = self._state or State(
            incomplete_roles=incomplete,
            max_threaded=threads,
            config=self.scheduler,
            estimates=self.estimates,
            kv_tokens={
                role: (engine.capabilities.kv_tokens, engine.capabilities.host_kv_tokens)
                for role, engine in self._engines.items()
            },
        )
        rooms = ContextWindows()
        sharing = Coalescing(is_on=self.scheduler.share_nodes)
        retention = KvRetention(self._engines, is_on=self.scheduler.retention)
        revisions = PromptRevisions(self._post, rooms)
        generations = RequestDispatcher(self._engines, revisions, rooms, sharing, retention)
        speculate = self.scheduler.speculate
        bodies = TaskRunner(self._post, self._clock, threads, self.patterns, speculate=speculate)
        self._speculation = bodies.speculation
        effects = Effects(self._runs, self._engines, generations, bodies, retention)
        intake = ResultDelivery(generations, self._runs, retention)
        clock, observers = self._clock, self.observers
        return Loop(state, effects, intake, observers, clock, self._end_runs, retention)

    def _end_runs(self, error: AgentrtError) -> None:
        """Nothing may wait for ever: every node of every run fails."""
        for run in self._runs.values():
            run.end(error)

    def _post(self, fact: Any) -> None:
        if self._loop is not None:  # else the runtime was closed over a task that went on
            self._loop.post(fact)

    @staticmethod
    def _serve(
        tasks: TaskGroup, stack: AsyncExitStack, body: Callable[[], Awaitable[None]]
    ) -> None:
        """Run `body` until the runtime closes, also while whoever opened it is being cancelled."""
        scope = anyio.CancelScope(shield=True)

        async def serve() -> None:
            with scope:
                await body()

        tasks.start_soon(serve, name="agentrt service")
        stack.callback(scope.cancel)


async def _read(backend: Backend, loop: Loop) -> None:
    async for event in backend.events():
        loop.deliver(event)


async def _close(backend: Backend) -> None:
    """End an engine, also when whoever waits for that is being cancelled."""
    with anyio.CancelScope(shield=True):
        await backend.aclose()


@dataclass(frozen=True, slots=True)
class ConfiguredRuntime:
    """A runtime with options for its runs.

    Attributes:
        runtime: It.
        options: For each run started here.
    """

    runtime: Runtime
    options: RunOptions

    async def run(self, program: Program[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a program with these options; see `Runtime.run`."""
        return await self.runtime._run(self.options, program, args, kwargs)

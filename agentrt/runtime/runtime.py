"""A runtime: engines, one loop, and the runs that share them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import anyio
from anyio.abc import TaskGroup

from agentrt.base.clock import Clock, MonotonicClock
from agentrt.base.config import REPLAY_POLICIES, RunConfig, SchedulerConfig
from agentrt.base.errors import AgentrtError, UsageError
from agentrt.base.ids import RunId
from agentrt.base.record import record
from agentrt.base.run_progress import RunProgress
from agentrt.program import Node, Program, ProgramWork, Scope, in_scope
from agentrt.program.constraints import declared_constraints
from agentrt.protocol.backend import Backend
from agentrt.protocol.events import Observer, Outcome, RunFinished, RunStarted
from agentrt.runtime.assembly import assemble_loop, new_state
from agentrt.runtime.completion import error_record
from agentrt.runtime.engine_load import RoleLoad, load_of
from agentrt.runtime.loop import Loop, read_backend
from agentrt.runtime.loop_watch import watched_loop
from agentrt.runtime.model_role import ModelRole, models_of
from agentrt.runtime.node_limits import NodeLimits
from agentrt.runtime.observers import Observers
from agentrt.runtime.options import RunOptions
from agentrt.runtime.progress import run_progress
from agentrt.runtime.run import Run
from agentrt.runtime.run_begin import new_run_id, within_deadline
from agentrt.runtime.run_cost import run_budget, run_limit_pico
from agentrt.runtime.run_starts import RunStarts
from agentrt.runtime.tenant_usage import TenantUsages
from agentrt.runtime.tracing import Tracing
from agentrt.scheduler import Estimates, InternalEvent, State
from agentrt.scheduler.estimates.patterns import Patterns

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from agentrt.base.content_config import ContentChoice
    from agentrt.prompt import Codec
    from agentrt.runtime.response_cache.cache import ResponseCache
    from agentrt.runtime.run_watch import RunWatch

R = TypeVar("R")


class Runtime(RunStarts):
    """Runs programs on engines; several runs at once share the engines.

    `agentrt.open_runtime` opens one with an engine of its own; make one directly to choose the
    backends.

    Example:
        >>> import anyio
        >>> from agentrt import chat, program
        >>> from agentrt.testing import LoopClock, ScriptedBackend
        >>> @program
        ... async def greet(name: str) -> str:
        ...     return await chat().user("Greet ", name).generate()
        >>> async def main() -> str:
        ...     backend = ScriptedBackend(["Hello Ada!"], clock=LoopClock())
        ...     async with Runtime({"default": (backend, None)}) as runtime:
        ...         return await runtime.run(greet, "Ada")
        >>> anyio.run(main)
        'Hello Ada!'

    Attributes:
        tenants: Usage and cost by tenant, of all runs so far.

    Args:
        backends: Backends by role, each with its codec or None; `default` is that without a name.
        clock: The only clock of the runtime.
        observers: Observers of all events.
        config: Defaults for all runs.
        scheduler: How runs share the engines.
        estimates: Quantities learned from past runs; they go on learning here.
        patterns: Tool calls and prompts learned from past runs; they go on learning here.
        on_run_ended: Called when a run has ended and was learned from; must return at once.
        responses: The response cache for generations that want one; None caches nothing.
        state: State of a closed runtime with the same roles and settings; None begins anew.
        tracer_provider: OpenTelemetry provider that makes the spans of nodes while they run; None
            takes the one of the process, if there is one.
        content: Choice of what these spans have of prompts and answers; None leaves it to the
            environment.

    Raises:
        UsageError: No backend has the role `default`.
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
        patterns: Patterns | None = None,
        on_run_ended: Callable[[], None] | None = None,
        responses: ResponseCache | None = None,
        state: State | None = None,
        tracer_provider: TracerProvider | None = None,
        content: ContentChoice | None = None,
    ) -> None:
        if "default" not in backends:
            raise UsageError("no engine has the role 'default'", hint="Name one of them so")
        self._clock = clock or MonotonicClock()
        self._config = config or RunConfig()
        self.scheduler = scheduler or SchedulerConfig()
        known = Estimates() if state is None else state.estimates
        self.estimates = known if estimates is None else estimates
        self._state = state
        self.patterns = Patterns() if patterns is None else patterns
        self._on_run_ended = on_run_ended
        self._responses = responses
        self.tenants = TenantUsages()
        self._engines = {
            role: ModelRole(role, backend, codec) for role, (backend, codec) in backends.items()
        }
        self._models: dict[str, ModelRole] = dict(self._engines)
        self._tracing = Tracing(tracer_provider, content)
        self.observers = Observers(observers)
        self._runs: dict[RunId, Run] = {}
        self._loop: Loop | None = None
        self._stack: AsyncExitStack | None = None
        self._close: Callable[[], Awaitable[None]] | None = None

    @property
    def engines(self) -> Mapping[str, ModelRole]:
        """Engines by role."""
        return self._engines

    @property
    def down(self) -> AgentrtError | None:
        """The error for which nothing more is served: an engine is gone, or the loop broke."""
        return None if self._loop is None else self._loop.ended or self._loop.down

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for engine in self._engines.values():
                stack.push_async_callback(engine.aclose)
                await engine.backend.start()
                engine.check_codec()
                engine.prewarm(declared_constraints())
            self._models = models_of(self._engines)
            stack.push_async_callback(self._tracing.aclose)
            tasks = await stack.enter_async_context(anyio.create_task_group())
            self._loop = self._make_loop()
            stack.callback(self._loop.close)
            stack.push_async_callback(self._tasks.writes.hold, self._config.write_grace_s)
            for role, engine in self._engines.items():
                read = partial(read_backend, role, engine.backend, self._loop, self._clock)
                self._serve(tasks, stack, read)
            stack.enter_context(watched_loop(self._config.blocking_call_s))
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

    async def aclose(self) -> None:
        """Close a runtime that was opened by `await open_runtime(...)`; again does nothing.

        Raises:
            UsageError: A block has opened the runtime; its end closes it.
        """
        if self._close is None:
            raise UsageError(
                "a block has opened this runtime, and its end closes it",
                hint="To close it by hand, open it with `runtime = await open_runtime(...)`",
            )
        await self._close()

    def close_with(self, close: Callable[[], Awaitable[None]]) -> None:
        """Let `aclose` end the runtime by this function."""
        self._close = close

    def with_options(self, options: RunOptions) -> ConfiguredRuntime:
        """The same runtime, for runs with options of their own."""
        return ConfiguredRuntime(self, options)

    def _options(self) -> RunOptions:
        return RunOptions()

    async def _play(
        self,
        options: RunOptions,
        program: Program[..., R],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        watch: RunWatch | None,
    ) -> R:
        loop = self._loop
        if loop is not None and loop.ended is not None:
            raise loop.ended
        if loop is None:
            raise UsageError(
                "the runtime is not open",
                hint="Use it as `async with ... as runtime`, or before `await runtime.aclose()`",
            )
        if options.true_service_s is None and self.scheduler.policy in REPLAY_POLICIES:
            raise UsageError(
                f"the policy {self.scheduler.policy!r} has to know what each run will need",
                hint="Replays give RunOptions(true_service_s=...); else use the policy 'rwa'",
            )
        work = within_deadline(program.work(*args, **kwargs), options, self._config)
        limit_pico = run_limit_pico(self._config, options)
        run = self._begin(options, program.name, work, loop, watch)
        scope = Scope(run, "", None)
        if limit_pico is not None:
            scope.cost_budgets = (run_budget(run, limit_pico),)
        node_id = scope.next_id(program.name)
        node: Node[R] = Node(scope, node_id, "program", program.name, program.site, work)
        run.root = node

        async def body() -> R:
            scope.adopt(node)
            if work.deadline_s is None:  # it cannot be refused, so nothing has to decide its start
                self._tasks.start(run, node)
            return await node

        error: BaseException | None = None
        try:
            result = await in_scope(scope, body)
        except BaseException as raised:
            error = raised
        error = run.system_exit or error
        await self._end(run, error, loop)
        if error is not None:
            from agentrt.program.users_part import without_inner_frames  # for runs that fail

            raise without_inner_frames(error)
        return result

    def _begin(
        self,
        options: RunOptions,
        name: str,
        work: ProgramWork,
        loop: Loop,
        watch: RunWatch | None,
    ) -> Run:
        """Begin a run of a program."""
        run_id = new_run_id(options, self._runs)
        seed = self._config.seed if options.seed is None else options.seed
        started = RunStarted(
            run_id,
            name,
            work.source,
            self._clock.now_s(),
            self._clock.unix_ns(),
            work.deadline_s,
            seed,
            options.tenant,
            options.priority,
            options.true_service_s,
            options.true_kv_tokens,
            options.true_longest_tokens,
            options.session,
        )
        started, spans = self._tracing.begin_run(started, options, self.observers)
        loop.post(started)
        run = self._runs[run_id] = Run(
            run_id,
            seed,
            options,
            clock=self._clock,
            engines=self._models,
            limits=NodeLimits.of_run(self._config, options),
            post=loop.post,
            progress_of=self._progress_of,
            content=self.observers.content_of_run(in_events=self._config.capture_content),
            spans=spans,
            watch=watch,
        )
        if watch is not None:
            self.observers.watches[run_id] = watch
        return run

    async def _end(self, run: Run, error: BaseException | None, loop: Loop) -> None:
        """Report the end of a run, and drop what was kept for it."""
        self._tasks.speculation.forget_run(run, ended_well=error is None)
        loop.ahead.forget_run(run.run_id)
        outcome: Outcome = "ok" if error is None else "cancelled"
        if isinstance(error, Exception):
            outcome = "failed"
        cause = None if error is None else error_record(error)
        live = run.spans.live
        span_ids = {} if live is None else live.span_ids
        loop.deliver(RunFinished(run.run_id, outcome, self._clock.now_s(), cause, span_ids))
        del self._runs[run.run_id]
        self.observers.watches.pop(run.run_id, None)
        loop.retention.forget_run(run.run_id)
        await run.task_set.wait_until_done()
        if self._on_run_ended is not None:
            self._on_run_ended()

    def load_of(self, role: str) -> RoleLoad | None:
        """The load of the engine of a role; None while the runtime is not open."""
        return None if self._loop is None else load_of(self._loop.state, self._engines[role])

    def _progress_of(self, run: Run) -> RunProgress:
        state = self._loop.state.runs.get(run.run_id) if self._loop is not None else None
        if state is None:
            return RunProgress()
        return run_progress(state, run.nodes, self._clock.now_s())

    def _make_loop(self) -> Loop:
        state = self._state or new_state(
            self._engines, self._config, self.scheduler, self.estimates
        )
        loop, self._tasks = assemble_loop(
            state,
            self._models,
            self._runs,
            self.observers,
            self._clock,
            config=self._config,
            scheduler=self.scheduler,
            patterns=self.patterns,
            tenants=self.tenants,
            responses=self._responses,
            post=self._post,
            on_end=self._end_runs,
        )
        return loop

    def _end_runs(self, error: AgentrtError) -> None:
        """Fail every node of every run, so that nothing waits for ever."""
        for run in self._runs.values():
            run.end(error)

    def _post(self, event: InternalEvent) -> None:
        if self._loop is not None:  # else the runtime was closed while a task was still ending
            self._loop.post(event)

    @staticmethod
    def _serve(
        tasks: TaskGroup, stack: AsyncExitStack, body: Callable[[], Awaitable[None]]
    ) -> None:
        """Run `body` until the runtime closes, even while the opener is being cancelled."""
        scope = anyio.CancelScope(shield=True)

        async def serve() -> None:
            with scope:
                await body()

        tasks.start_soon(serve, name="agentrt service")
        stack.callback(scope.cancel)


@record
class ConfiguredRuntime(RunStarts):
    """A runtime with options for its runs.

    Attributes:
        runtime: The runtime.
        options: Options of each run that is started here.
    """

    runtime: Runtime
    options: RunOptions

    def _options(self) -> RunOptions:
        return self.options

    async def _play(
        self,
        options: RunOptions,
        program: Program[..., R],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        watch: RunWatch | None,
    ) -> R:
        return await self.runtime._play(options, program, args, kwargs, watch)

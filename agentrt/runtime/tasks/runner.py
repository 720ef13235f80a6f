"""Runs the nodes that have tasks: tools, programs and questions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio

from agentrt.base.clock import Clock
from agentrt.base.config import RunConfig
from agentrt.base.errors import OutcomeUnknown, UsageError
from agentrt.program import (
    AskWork,
    Node,
    ProgramWork,
    Scope,
    ToolWork,
    YieldingNode,
    in_scope,
)
from agentrt.protocol.events import ToolEnded, ToolStarted
from agentrt.runtime.completion import carry_out, succeeded
from agentrt.runtime.options import PersonQuestion
from agentrt.runtime.run import Run
from agentrt.runtime.task import Task
from agentrt.runtime.tasks.speculation import Speculation
from agentrt.scheduler import InternalEvent
from agentrt.scheduler.estimates.call_patterns import CallPatterns
from agentrt.scheduler.internal_events import TextYielded
from agentrt.tools import (
    AttemptEnded,
    AttemptStarted,
    WriteCalls,
    execute,
    idempotency_key_of,
    tool_call_key,
)


class TaskRunner:
    """Starts the tasks of nodes, and posts their ends to the loop.

    Attributes:
        speculation: Tool calls that are made ahead.
        writes: Calls of `write` tools under way, also those that no run waits for any more.
    """

    def __init__(
        self,
        post: Callable[[InternalEvent], None],
        clock: Clock,
        config: RunConfig,
        patterns: CallPatterns,
        *,
        speculate: bool = False,
    ) -> None:
        self._post = post
        self._clock = clock
        self._threads = anyio.CapacityLimiter(config.max_concurrent_tools)
        self._max_result_bytes = config.max_result_bytes
        self.writes = WriteCalls()
        self.speculation = Speculation(post, clock, self._threads, patterns, is_on=speculate)

    def start(self, run: Run, node: Node[Any]) -> None:
        """Start a node's task, with the context variables of the code that made it."""
        if node.id in run.tasks:
            return  # the root of a run, which has begun
        task = run.tasks[node.id] = Task()
        run.task_set.start(self._run(run, node, task), node.id, run.contexts.pop(node.id))

    async def _run(self, run: Run, node: Node[Any], task: Task) -> None:
        if run.spans.are_told:
            run.spans.enter(node, run.now_s())
        body = partial(self._value, run, node, task)
        await carry_out(run, node, task, body, partial(succeeded, run, node), self._post)

    async def _value(self, run: Run, node: Node[Any], task: Task) -> Any:
        work = node.work
        match work:
            case ToolWork():
                return await self._tool(run, node, work)
            case ProgramWork():
                return await self._program(run, node, work, task)
            case AskWork():
                return await self._ask(run, node, work)
            case _:
                raise AssertionError(f"{node.kind} nodes have no task")

    async def _tool(self, run: Run, node: Node[Any], work: ToolWork) -> Any:
        if work.refused is not None:
            raise work.refused

        def on_attempt(attempt: AttemptStarted | AttemptEnded) -> None:
            number, at_s = attempt.attempt, attempt.at_s
            if isinstance(attempt, AttemptStarted):
                if isinstance(node, YieldingNode):
                    node.begin_anew()
                self._post(ToolStarted(run.run_id, node.id, number, at_s))
            else:
                self._post(ToolEnded(run.run_id, node.id, number, at_s, attempt.error))

        def on_text(text: str) -> None:
            if isinstance(node, YieldingNode) and not node.done:
                node.add_text(text)
                self._post(TextYielded(run.run_id, node.id))

        tool_call_key.set(idempotency_key_of(run.run_id, node.id))
        call = partial(
            execute,
            work.spec,
            work.arguments,
            clock=self._clock,
            on_attempt=on_attempt,
            limiter=self._threads,
            writes=self.writes,
            max_result_bytes=self._max_result_bytes,
            on_write=run.options.on_write,
            on_tool=run.options.on_tool,
            call_path=node.id,
            on_text=on_text,
        )
        try:
            if not self.speculation.is_on:
                return await call()
            return await self.speculation.call(run, node, work, on_attempt, call)
        except OutcomeUnknown:
            run.unknown_outcomes.append(f"in {node.label}, with unknown outcome")
            raise

    async def _program(self, run: Run, node: Node[Any], work: ProgramWork, task: Task) -> Any:
        if work.deadline_s is not None:
            task.scope.deadline = anyio.current_time() + work.deadline_s
            task.expect_end(work.deadline_s)
        deadline_at_s = None if work.deadline_s is None else run.now_s() + work.deadline_s
        scope = Scope.of_program(node, deadline_at_s)
        run.last_waits[node.id] = scope.waited

        async def body() -> Any:
            try:
                return await work.body()
            except anyio.get_cancelled_exc_class():
                if task.stop_error is None:  # the deadline
                    task.progress = run.progress()
                raise

        value = await in_scope(scope, body)
        if isinstance(value, Node):
            raise UsageError(
                f"program {node.name} returned the node {value.name!r}",
                hint="Return its value: `return await ...`",
                where=node.site,
            )
        return value

    async def _ask(self, run: Run, node: Node[Any], work: AskWork) -> Any:
        if run.options.on_ask is None:
            raise UsageError(
                f"nobody answers the question {work.question!r}",
                hint="Start the run with RunOptions(on_ask=...)",
                where=node.site,
            )
        answer = run.options.on_ask(PersonQuestion(node.id, work.question, work.form))
        if inspect.isawaitable(answer):
            answer = await answer
        try:
            return work.parse(answer)
        except ValueError as error:
            raise UsageError(
                f"{answer!r} is no answer to {work.question!r}: {str(error).splitlines()[0]}",
                hint="Answer with a value of the type that was asked for",
                where=node.site,
            ) from error

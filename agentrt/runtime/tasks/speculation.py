"""Speculation: tool calls that are made ahead, if past runs show what comes next. Off by default.

Only tools without effects are called, and only if their result stays true for a while: `pure` ones,
and `read` ones with a `stable_for`. A guessed call runs while threads are idle; its result is kept
for the real call, which takes it or waits for it. The program sees nothing of a guess until it
makes that very call, and a guess that was not called for is reported as wasted.
"""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from agentrt.base.canonical_json import dumps
from agentrt.base.clock import Clock
from agentrt.base.errors import AgentrtError, UsageError, record_of
from agentrt.base.ids import NodeId, RunId
from agentrt.program import Gen, Node, ProgramWork, ToolWork, active
from agentrt.protocol.events import Scheduled
from agentrt.runtime.run import Run
from agentrt.scheduler import InternalEvent
from agentrt.scheduler.estimates.call_model import CallGuess, EndedCall
from agentrt.scheduler.estimates.call_patterns import CallPatterns
from agentrt.scheduler.runs.run import template_of
from agentrt.tools import AttemptEnded, AttemptStarted, OnAttempt, ToolSpec, declared_tool, execute

MOST_AHEAD = 4
"""Guesses of one run that are running or kept, at most."""
IDLE_THREADS = 2
"""Threads that stay free for real calls."""
PURE_STABLE_S = 300.0
MOST_ARGUMENT_CHARACTERS = 10_000

Key = tuple[Any, ...]


@dataclass(slots=True, eq=False)
class SpeculatedCall:
    """A call made ahead.

    Attributes:
        node_id: The node after the end of which it was made, or during which.
        spec: The tool with its bound arguments, which are compared by identity.
        began_s: Time of its start.
        ended_s: Time of its end, or None.
        value: The result.
        error: The exception of the tool, or None.
        done: Set at the end.
        scope: Cancels the call.
    """

    node_id: NodeId
    spec: ToolSpec
    began_s: float
    ended_s: float | None = None
    value: Any = None
    error: BaseException | None = None
    done: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def is_stale(self, now_s: float) -> bool:
        stable_s = PURE_STABLE_S if self.spec.effects == "pure" else self.spec.stable_for_s or 0.0
        return now_s - (now_s if self.ended_s is None else self.ended_s) > stable_s

    def spent_s(self, now_s: float) -> float:
        return (now_s if self.ended_s is None else self.ended_s) - self.began_s


@dataclass(slots=True, eq=False)
class _CallHistory:
    """The tool calls of one run.

    Attributes:
        before: The last calls that have ended, the latest first, then the call of the program.
        since: Calls that were made since the latest of those ended.
        specs: Tools that the run has called or offered, by name.
        ahead: Calls made ahead that have not been called for.
    """

    before: tuple[EndedCall, ...]
    since: int = 0
    specs: dict[str, ToolSpec] = field(default_factory=dict)
    ahead: dict[Key, SpeculatedCall] = field(default_factory=dict)


class Speculation:
    """Learns which tool calls follow each other, and makes likely ones ahead.

    Args:
        post: Takes events that report what was done.
        clock: Clock of the runtime.
        threads: Threads of synchronous tools.
        patterns: Call patterns learned so far; they go on learning.
        is_on: Whether calls are made ahead.

    Attributes:
        is_on: Whether calls are made ahead.
    """

    def __init__(
        self,
        post: Callable[[InternalEvent], None],
        clock: Clock,
        threads: anyio.CapacityLimiter,
        patterns: CallPatterns,
        *,
        is_on: bool,
    ) -> None:
        self.is_on = is_on
        self._post = post
        self._clock = clock
        self._threads = threads
        self._patterns = patterns
        self._specs: dict[tuple[str, str], ToolSpec] = {}  # by program and name
        self._histories: dict[RunId, _CallHistory] = {}

    def note_generation(self, run: Run, gen: Gen[Any]) -> None:
        """Note the tools that a model may call, and begin those that the program likely calls.

        What follows the end of a tool has begun there. Before the first one, the program waits for
        a generation, such as a guard: the likely branch begins while that is written.
        """
        history = self._history(run)
        for tool in gen.work.output.tools.values():
            history.specs[tool.name] = tool.spec
        if len(history.before) == 1 and not history.since:
            self._begin_likely(run, gen, history)

    async def call(
        self,
        run: Run,
        node: Node[Any],
        work: ToolWork,
        on_attempt: OnAttempt,
        call: Callable[[], Awaitable[Any]],
    ) -> Any:
        """The result of a tool, from the same call made ahead if there is one."""
        self._note_call(run, work)
        try:
            ahead = self._pop_ahead(run, work)
            if ahead is not None and await self._take_ahead(run, node, ahead, on_attempt):
                value = ahead.value
            else:
                value = await call()
        except Exception:
            self._note_end(run, node, work, None, ok=False)
            raise
        self._note_end(run, node, work, value, ok=True)
        return value

    def _note_call(self, run: Run, work: ToolWork) -> None:
        """Learn from a real call of a tool."""
        arguments = _plain(work.arguments)
        history = self._history(run)
        name = _program_of(run)
        history.specs[work.spec.name] = work.spec
        if not work.spec.bound:  # bound arguments belong to this run
            self._specs[name, work.spec.name] = work.spec
        if arguments is not None:
            tool, public = work.spec.name, _public(work.spec, arguments)
            self._patterns.learn_call(name, history.before, history.since, tool, arguments, public)
        history.since += 1

    def _pop_ahead(self, run: Run, work: ToolWork) -> SpeculatedCall | None:
        """The same call made ahead; None if there is none, or if its result is too old."""
        history = self._history(run)
        ahead = history.ahead.pop(_key(work.spec, _plain(work.arguments)), None)
        if ahead is not None and ahead.is_stale(self._clock.now_s()):
            self._waste(run.run_id, ahead, "its result is too old")
            return None
        return ahead

    async def _take_ahead(
        self, run: Run, node: Node[Any], ahead: SpeculatedCall, on_attempt: OnAttempt
    ) -> bool:
        """Wait for the end of a call made ahead; whether it has a result."""
        called_s = self._clock.now_s()
        on_attempt(AttemptStarted(1, called_s))
        try:
            await ahead.done.wait()
        except BaseException:
            ahead.scope.cancel()
            self._waste(run.run_id, ahead, "its caller was cancelled")
            raise
        finally:
            error = None if ahead.error is None else record_of(ahead.error)
            on_attempt(AttemptEnded(1, self._clock.now_s(), error))
        if ahead.error is not None:
            self._waste(run.run_id, ahead, "it failed")
            return False
        saved_s = min(called_s, ahead.ended_s or called_s) - ahead.began_s
        self._report(run.run_id, node.id, f"{node.name} was called ahead", ("saved_s", saved_s))
        return True

    def _note_end(self, run: Run, node: Node[Any], work: ToolWork, value: Any, *, ok: bool) -> None:
        """Note that a tool has ended, and begin the calls that are likely next."""
        arguments = _plain(work.arguments)
        if arguments is None or run.run_id not in self._histories:
            return
        history = self._histories[run.run_id]
        result = _plain({"": value}) if ok else None
        called = EndedCall(work.spec.name, arguments, result[""] if result else None, ok)
        *calls, start = history.before
        history.before = (called, *calls[:1], start)
        history.since = 0
        self._begin_likely(run, node, history)

    def forget_run(self, run: Run, *, ended_well: bool) -> None:
        """Report the calls of a run that were made in vain, and learn that no other call came."""
        history = self._histories.pop(run.run_id, None)
        if history is None:
            return
        for ahead in history.ahead.values():
            ahead.scope.cancel()
            self._waste(run.run_id, ahead, "it was never called")
        if ended_well:
            self._patterns.learn_end(_program_of(run), history.before, history.since)

    def _begin_likely(self, run: Run, node: Node[Any], history: _CallHistory) -> None:
        """Begin the calls that are likely next, while a program waits for `node`."""
        for guess in self._patterns.guesses(_program_of(run), history.before):
            self._begin(run, node, history, guess)

    def _begin(self, run: Run, node: Node[Any], history: _CallHistory, guess: CallGuess) -> None:
        spec = history.specs.get(guess.tool) or self._specs.get((_program_of(run), guess.tool))
        spec = spec or declared_tool(guess.tool)  # learned by another process
        if spec is None or not may_be_called_ahead(spec):
            return
        if not spec.is_async and self._threads.available_tokens <= IDLE_THREADS:
            return
        key = _key(spec, guess.arguments)
        if key in history.ahead or len(history.ahead) >= MOST_AHEAD:
            return
        try:
            arguments = spec.parse(dumps(guess.arguments))
        except (AgentrtError, ValueError):
            return  # the signature has changed
        ahead = history.ahead[key] = SpeculatedCall(node.id, spec, self._clock.now_s())
        context = contextvars.copy_context()
        context.run(active.set, None)  # a guess makes no nodes
        if run.root is not None:
            context.run(run.spans.enter_program, run.root.id)
        body = self._run(ahead, spec, arguments)
        run.task_set.start(body, f"{spec.name} ahead", context)
        reason = f"{spec.name}({dumps(guess.arguments)[:200]}) is likely next"
        terms = (("probability", guess.probability), ("trials", float(guess.trials)))
        self._report(run.run_id, node.id, reason, *terms)

    async def _run(
        self, ahead: SpeculatedCall, spec: ToolSpec, arguments: Mapping[str, Any]
    ) -> None:
        ahead.error = RuntimeError("it was cancelled")
        try:
            with ahead.scope:
                ahead.value = await execute(
                    spec, arguments, clock=self._clock, limiter=self._threads
                )
                ahead.error = None
        except Exception as raised:
            ahead.error = raised
        finally:
            ahead.ended_s = self._clock.now_s()
            ahead.done.set()

    def _history(self, run: Run) -> _CallHistory:
        history = self._histories.get(run.run_id)
        if history is None:
            history = self._histories[run.run_id] = _CallHistory((_start_of(run),))
        return history

    def _waste(self, run_id: RunId, ahead: SpeculatedCall, why: str) -> None:
        spent_s = ahead.spent_s(self._clock.now_s())
        reason = f"{ahead.spec.name} was called ahead in vain: {why}"
        self._report(run_id, ahead.node_id, reason, ("wasted_s", spent_s))

    def _report(
        self, run_id: RunId, node_id: NodeId, reason: str, *terms: tuple[str, float]
    ) -> None:
        now_s = self._clock.now_s()
        self._post(Scheduled(run_id, node_id, now_s, "speculated", reason, terms=terms))


def may_be_called_ahead(spec: ToolSpec) -> bool:
    """Whether a call changes nothing, and its result stays true for a while."""
    if spec.effects == "pure":
        return True
    return spec.effects == "read" and spec.stable_for_s is not None


def _program_of(run: Run) -> str:
    """The key under which quantities of the run's program are learned."""
    root = run.root
    if root is None or not isinstance(root.work, ProgramWork):
        return ""
    return template_of(root.name, root.work.source)


def _start_of(run: Run) -> EndedCall:
    """The call of the run's program."""
    work = run.root.work if run.root is not None else None
    arguments: dict[str, Any] = {}
    for name, value in work.arguments.items() if isinstance(work, ProgramWork) else ():
        arguments |= _plain({name: value}) or {}
    return EndedCall("", arguments, None, ok=True)


def _public(spec: ToolSpec, arguments: Mapping[str, Any]) -> list[str]:
    """Names of arguments with harmless values: booleans, null, and values of the signature."""
    try:
        properties = spec.parameters.get("properties", {})
    except (UsageError, NameError):
        properties = {}  # a type without a JSON form
    return [
        name
        for name, value in arguments.items()
        if value is None
        or isinstance(value, bool)
        or (form := properties.get(name, {})).get("default") == value
        or form.get("const") == value
        or value in form.get("enum", ())
    ]


def _key(spec: ToolSpec, arguments: Mapping[str, Any] | None) -> Key:
    """Key of a call: the function, its bound arguments by identity, and the other arguments."""
    if arguments is None:
        return ()
    bound = tuple(sorted((name, id(value)) for name, value in spec.bound.items()))
    return (spec.fn, bound, dumps(dict(sorted(arguments.items()))))


def _plain(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Values as plain data; None if they have no JSON form or a long one."""
    from pydantic_core import to_jsonable_python

    try:
        plain: dict[str, Any] = to_jsonable_python(dict(values))
        text = dumps(plain)
    except (ValueError, TypeError, RecursionError):
        return None
    return plain if len(text) <= MOST_ARGUMENT_CHARACTERS else None

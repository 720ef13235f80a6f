"""Calls tools ahead, where past runs say what comes next. Off unless it is asked for.

Only tools that change nothing and whose result stays true for a while: `pure` ones, and those that
read and say for how long by `stable_for`. A guess is run while threads are idle, its result is kept
for the real call, which takes it or joins it under way. Nothing of a guess is seen by the program
until it makes that very call, and what nobody called for is reported as wasted.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping
from typing import Any

import anyio

from agentrt.base.canonical_json import dumps
from agentrt.base.clock import Clock
from agentrt.base.errors import AgentrtError, UsageError
from agentrt.base.ids import NodeId, RunId
from agentrt.program import Gen, Node, ProgramWork, ToolWork, active
from agentrt.protocol.events import Scheduled
from agentrt.runtime.run import Run
from agentrt.scheduler import InternalEvent
from agentrt.scheduler.estimates.call_model import CallGuess, EndedCall
from agentrt.scheduler.estimates.call_patterns import CallPatterns
from agentrt.scheduler.runs.run import template_of
from agentrt.tools import ToolSpec, declared_tool, execute

MOST_AHEAD = 4
"""Guesses of one run under way or kept at once."""
IDLE_THREADS = 2
"""So many stay for calls that are really made."""
PURE_STABLE_S = 300.0
MOST_ARGUMENT_CHARACTERS = 10_000

Key = tuple[Any, ...]


class SpeculatedCall:
    """A call made ahead.

    Attributes:
        node_id: The node after whose end it was made.
        spec: The tool; holds what is bound to it, by whose identity it is found.
        began_s: When.
        ended_s: When it was over, or None.
        value: Its result.
        error: What it raised.
        done: Set at its end.
        scope: Ends it.
    """

    __slots__ = ("began_s", "done", "ended_s", "error", "node_id", "scope", "spec", "value")

    def __init__(self, node_id: NodeId, spec: ToolSpec, began_s: float) -> None:
        self.node_id = node_id
        self.spec = spec
        self.began_s = began_s
        self.ended_s: float | None = None
        self.value: Any = None
        self.error: BaseException | None = None
        self.done = anyio.Event()
        self.scope = anyio.CancelScope()

    def is_stale(self, now_s: float) -> bool:
        stable_s = PURE_STABLE_S if self.spec.effects == "pure" else self.spec.stable_for_s or 0.0
        return now_s - (now_s if self.ended_s is None else self.ended_s) > stable_s

    def spent_s(self, now_s: float) -> float:
        return (now_s if self.ended_s is None else self.ended_s) - self.began_s


class _Story:
    """What one run has called."""

    def __init__(self) -> None:
        self.before: tuple[EndedCall, ...] = ()
        self.since = 0
        self.specs: dict[str, ToolSpec] = {}
        self.ahead: dict[Key, SpeculatedCall] = {}


class Speculation:
    """See the module.

    Args:
        post: Where what was decided is told.
        clock: Of all instants.
        threads: That synchronous tools share.
        patterns: What is known of which call comes next; goes on learning.
        is_on: Whether anything is called ahead.

    Attributes:
        is_on: The same.
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
        self._stories: dict[RunId, _Story] = {}

    def offered(self, run: Run, gen: Gen[Any]) -> None:
        """A model may call these tools."""
        for tool in gen.work.output.tools.values():
            self._story(run).specs[tool.name] = tool.spec

    def begins(self, run: Run, work: ToolWork) -> None:
        """A tool is really called: that is what is learned."""
        arguments = _plain(work.arguments)
        story = self._story(run)
        name = _program_of(run)
        story.specs[work.spec.name] = work.spec
        if not work.spec.bound:  # what is bound is this run's own
            self._specs[name, work.spec.name] = work.spec
        if arguments is not None:
            tool, public = work.spec.name, _public(work.spec, arguments)
            self._patterns.learn(name, story.before, story.since, tool, arguments, public)
        story.since += 1

    def take(self, run: Run, work: ToolWork) -> SpeculatedCall | None:
        """The same call made ahead, for the real one; None where there is none that is true."""
        story = self._story(run)
        ahead = story.ahead.pop(_key(work.spec, _plain(work.arguments)), None)
        if ahead is not None and ahead.is_stale(self._clock.now_s()):
            self._waste(run.run_id, ahead, "its result is too old")
            return None
        return ahead

    async def join(self, run: Run, node: Node[Any], ahead: SpeculatedCall) -> bool:
        """Wait for its end; whether it has a result."""
        called_s = self._clock.now_s()
        try:
            await ahead.done.wait()
        except BaseException:
            ahead.scope.cancel()
            self._waste(run.run_id, ahead, "who called it was cancelled")
            raise
        if ahead.error is not None:
            self._waste(run.run_id, ahead, "it failed")
            return False
        saved_s = min(called_s, ahead.ended_s or called_s) - ahead.began_s
        self._tell(run.run_id, node.id, f"{node.name} was called ahead", ("saved_s", saved_s))
        return True

    def ended(self, run: Run, node: Node[Any], work: ToolWork, value: Any, *, ok: bool) -> None:
        """A tool has ended: what is likely next is begun."""
        arguments = _plain(work.arguments)
        if arguments is None or run.run_id not in self._stories:
            return
        story = self._stories[run.run_id]
        result = _plain({"": value}) if ok else None
        called = EndedCall(work.spec.name, arguments, result[""] if result else None, ok)
        story.before = (called, *story.before[:1])
        story.since = 0
        for guess in self._patterns.guesses(_program_of(run), story.before):
            self._begin(run, node, story, guess)

    def run_ended(self, run_id: RunId) -> None:
        """What nobody has called for is in vain."""
        story = self._stories.pop(run_id, None)
        for ahead in story.ahead.values() if story is not None else ():
            ahead.scope.cancel()
            self._waste(run_id, ahead, "nobody called it")

    def _begin(self, run: Run, node: Node[Any], story: _Story, guess: CallGuess) -> None:
        spec = story.specs.get(guess.tool) or self._specs.get((_program_of(run), guess.tool))
        spec = spec or declared_tool(guess.tool)  # another process has seen it called
        if spec is None or not may_be_called_ahead(spec):
            return
        if not spec.is_async and self._threads.available_tokens <= IDLE_THREADS:
            return
        key = _key(spec, guess.arguments)
        if key in story.ahead or len(story.ahead) >= MOST_AHEAD:
            return
        try:
            arguments = spec.parse(dumps(guess.arguments))
        except (AgentrtError, ValueError):
            return  # what fitted before does not fit any more
        ahead = story.ahead[key] = SpeculatedCall(node.id, spec, self._clock.now_s())
        context = contextvars.copy_context()
        context.run(active.set, None)  # nodes are for calls that are really made
        body = self._run(ahead, spec, arguments)
        run.under_way.start(body, f"{spec.name} ahead", context)
        said = f"{spec.name}({dumps(guess.arguments)[:200]}) is likely next"
        terms = (("probability", guess.probability), ("trials", float(guess.trials)))
        self._tell(run.run_id, node.id, said, *terms)

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

    def _story(self, run: Run) -> _Story:
        story = self._stories.get(run.run_id)
        if story is None:
            story = self._stories[run.run_id] = _Story()
        return story

    def _waste(self, run_id: RunId, ahead: SpeculatedCall, why: str) -> None:
        spent_s = ahead.spent_s(self._clock.now_s())
        said = f"{ahead.spec.name} was called ahead in vain: {why}"
        self._tell(run_id, ahead.node_id, said, ("wasted_s", spent_s))

    def _tell(self, run_id: RunId, node_id: NodeId, said: str, *terms: tuple[str, float]) -> None:
        now_s = self._clock.now_s()
        self._post(Scheduled(run_id, node_id, now_s, "speculated", said, terms=terms))


def may_be_called_ahead(spec: ToolSpec) -> bool:
    """Whether calling it changes nothing, and its result is true for a while."""
    if spec.effects == "pure":
        return True
    return spec.effects == "read" and spec.stable_for_s is not None


def _program_of(run: Run) -> str:
    """As all that is learned of it is found."""
    root = run.root
    if root is None or not isinstance(root.work, ProgramWork):
        return ""
    return template_of(root.name, root.work.source)


def _public(spec: ToolSpec, arguments: Mapping[str, Any]) -> list[str]:
    """Arguments whose values are no secret: true, false, null, and what the signature names."""
    try:
        properties = spec.parameters.get("properties", {})
    except (UsageError, NameError):
        properties = {}  # a type that has no JSON form
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
    """Equal for the same call: the function, what is bound to it, and the arguments."""
    if arguments is None:
        return ()
    bound = tuple(sorted((name, id(value)) for name, value in spec.bound.items()))
    return (spec.fn, bound, dumps(dict(sorted(arguments.items()))))


def _plain(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Values as plain data, or None where they have no short form as such."""
    from pydantic_core import to_jsonable_python

    try:
        plain: dict[str, Any] = to_jsonable_python(dict(values))
        text = dumps(plain)
    except (ValueError, TypeError, RecursionError):
        return None
    return plain if len(text) <= MOST_ARGUMENT_CHARACTERS else None

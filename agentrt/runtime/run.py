"""One run: takes the nodes of its program and reports them to the loop."""

from __future__ import annotations

import contextvars
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from agentrt.base.clock import Clock
from agentrt.base.errors import (
    AgentrtError,
    DeadlineExceeded,
    NodeCancelled,
    Unsupported,
    UsageError,
)
from agentrt.base.ids import NodeId, RunId
from agentrt.base.run_progress import RunProgress
from agentrt.base.sampling_params import sampling_attributes
from agentrt.program import AskWork, Gen, Node, ProgramWork, ToolWork
from agentrt.program.node import fail
from agentrt.program.ports import LastWait, OwningScope
from agentrt.program.prompt_prefix import answer_of, inputs_in, since_answer
from agentrt.protocol.events import AttributeValue, NodeDeclared, NodeDemanded
from agentrt.runtime.engine_deadline import engine_deadline_s
from agentrt.runtime.model_role import ModelRole
from agentrt.runtime.node_limits import NodeLimits, too_large
from agentrt.runtime.options import RunOptions
from agentrt.runtime.run_content import RunContent
from agentrt.runtime.run_spans import RunSpans
from agentrt.runtime.task import StopRequest, Task, TaskEnd, TaskSet
from agentrt.scheduler import InternalEvent, internal_events

if TYPE_CHECKING:
    from agentrt.runtime.run_watch import RunWatch


class Run:
    """One execution of a program; implements the `Submit` port of the language.

    Attributes:
        run_id: Id of the run.
        root: Node of the program that was called; None before it is made.
        system_exit: The `sys.exit` of one of its programs, which ends the run.
        seed: Seed from which every node derives its own.
        options: Options of the caller.
        nodes: Nodes that have not ended, by id.
        tasks: Tasks of tools, programs, questions and prompt revisions, by node.
        contexts: Context variables of the code that made a node, until it starts.
        declared_with_holes: Generations that were declared with pending parts in their prompts.
        last_waits: Last wait of the code of each program that is running.
        deferred: Generations with a prompt that is too long, while a prompt that it continues may
            still be made shorter, and those of which the options are still being written.
        revised_pieces: Length in pieces of the prompts for which `on_overflow` was called.
        encoded_large_texts: Number of large texts in a prompt that were encoded ahead, by node.
        stop_requests: Requests of code to end a node.
        unknown_outcomes: Notes on `write` tools that had not ended when the wait for them did.
        stuck: Nodes whose code did not end when it was stopped, and whether all nodes that it has
            made have ended. It makes no more nodes.
        task_set: The asyncio tasks of the run.
        has_sent: Whether a generation has been handed to an engine.
        content: Prompts and outputs of its nodes, as far as observers want them, or None.
        spans: Spans of its nodes, as engines, tools and logs see them.
        watch: Watch of its caller over it, or None.
    """

    def __init__(
        self,
        run_id: RunId,
        seed: int,
        options: RunOptions,
        *,
        clock: Clock,
        engines: Mapping[str, ModelRole],
        limits: NodeLimits,
        post: Callable[[InternalEvent], None],
        progress_of: Callable[[Run], RunProgress],
        content: RunContent | None,
        spans: RunSpans,
        watch: RunWatch | None,
    ) -> None:
        self.run_id = run_id
        self.root: Node[Any] | None = None
        self.system_exit: SystemExit | None = None
        self.seed = seed
        self.options = options
        self.nodes: dict[str, Node[Any]] = {}
        self.tasks: dict[str, Task] = {}
        self.contexts: dict[str, contextvars.Context] = {}
        self.last_waits: dict[str, LastWait] = {}
        self.deferred: set[str] = set()
        self.revised_pieces: dict[str, int] = {}
        self.encoded_large_texts: dict[str, int] = {}
        self.stop_requests: dict[str, StopRequest] = {}
        self.declared_with_holes: set[str] = set()
        self.unknown_outcomes: list[str] = []
        self.stuck: dict[str, bool] = {}
        self._kept: tuple[dict[str, Any], ...]
        self._kept = self.tasks, self.contexts, self.revised_pieces, self.encoded_large_texts
        self.task_set = TaskSet()
        self.has_sent = False
        self.content = content
        self.spans = spans
        self.watch = watch
        self.now_s = clock.now_s
        self._engines = engines
        self._limits = limits
        self._made = 0
        self._post = post
        self._progress_of = progress_of
        self._ended: AgentrtError | None = None
        self._continued: dict[int, NodeId] = {}
        seed_bytes = seed.to_bytes(16, "little", signed=True)
        self._keyed = hashlib.blake2b(digest_size=8, key=seed_bytes)

    def seed_of(self, node_id: NodeId) -> int:
        """63 bits of a hash of the run's seed and the node's path."""
        keyed = self._keyed.copy()
        keyed.update(node_id.encode())
        return int.from_bytes(keyed.digest(), "little") >> 1

    def check_model(self, role: str) -> None:
        """See `Submit.check_model`."""
        if role not in self._engines:
            raise UsageError(
                f"no engine has the role {role!r}",
                hint=f"There are: {', '.join(sorted(self._engines))}",
            )

    def token_counter(self, role: str) -> Callable[[str], int]:
        """See `Submit.token_counter`."""
        self.check_model(role)
        return self._engines[role].token_counter()

    def declare(self, node: Node[Any], *, held: bool) -> None:
        """Take a new node.

        Raises:
            Unsupported: The engine of a generation lacks an ability that it needs.
            RunTooLarge: The node would pass a limit of the run.
            AgentrtError: The loop has ended, with this error.
        """
        if self._ended is not None:
            raise self._ended
        scope = node.scope
        if scope.owner in self.stuck:
            raise NodeCancelled(f"{node.label} comes after its program's end", reason="stopped")
        depth = scope.depth + (node.kind == "program")
        limits, running = self._limits, len(self.tasks) + len(self.contexts)
        self._made += 1
        if (
            depth > limits.max_depth
            or self._made > limits.max_nodes
            or running >= limits.max_running
        ):
            passed = limits.passed(depth, self._made)
            raise too_large(passed, node.label, self._call_chain(node))
        now_s = self.now_s()
        if isinstance(node, Gen):
            self._engines[node.work.model].check_generation(node, self.options.cache_salt)
            if node.work.on_overflow is not None:
                self.contexts[node.id] = contextvars.copy_context()
            if self.spans.live is not None:
                self.spans.live.declare(node.id, now_s)
            event = self._generation(node, scope, now_s)
        else:
            self.contexts[node.id] = contextvars.copy_context()
            event = self._other(node, scope, now_s)
        self.nodes[node.id] = node
        if self.watch is not None:
            self.watch.declare(node)
        self._post(event)
        if held:
            self._post(internal_events.Held(self.run_id, node.id))

    def release(self, node: Node[Any]) -> None:
        """Let a held node start."""
        self._post(internal_events.Released(self.run_id, node.id, self.now_s()))

    def demand(self, node: Node[Any]) -> None:
        """Mark the node as awaited."""
        self._post(NodeDemanded(self.run_id, node.id, self.now_s()))

    def withdraw(self, node: Node[Any]) -> None:
        """Mark the node as no longer awaited."""
        self._post(internal_events.DemandEnded(self.run_id, node.id))

    def cancel(self, node: Node[Any], reason: str) -> None:
        """End the node without its value."""
        if not node.scope.cut_short:
            waited = node.scope.waited
            self.stop_requests.setdefault(
                node.id, StopRequest(self.now_s(), waited.node_id, waited.item)
            )
        self._post(internal_events.CancelRequested(self.run_id, node.id, reason))

    def close(self, node: Node[Any]) -> None:
        """See `Submit.close`."""
        assert isinstance(node, Gen)
        if not self._engines[node.work.model].capabilities.closes:
            raise Unsupported(
                f"the engine {node.work.model!r} cannot close an output validly",
                hint="Cancel without close=True, or use an embedded engine",
            )
        self._post(internal_events.CloseRequested(self.run_id, node.id, self.now_s()))

    async def attempt(
        self, node: Node[Any], task: Task, body: Callable[[], Awaitable[Any]]
    ) -> TaskEnd:
        """Run the body of a node's task, in the scope that ends it."""
        with task.scope:
            try:
                if task.stop_error is not None:  # stopped before it could begin
                    raise task.stop_error
                return TaskEnd(await body())
            except Exception as error:
                is_stuck = node.id in self.stuck  # a node of its end was cancelled
                return TaskEnd(error=self.stop_error(node, task) if is_stuck else error)
            except SystemExit as system_exit:
                return TaskEnd(error=self.exit(node, system_exit))
        return TaskEnd(error=self.stop_error(node, task))

    def stop_error(self, node: Node[Any], task: Task) -> Exception:
        """The error for which a task was stopped; without one, its deadline has passed."""
        if task.stop_error is not None:
            return task.stop_error
        work = node.work
        allowed_s = work.deadline_s if isinstance(work, ProgramWork) else None
        allowed = "" if allowed_s is None else f" of {allowed_s:g} s"
        return DeadlineExceeded(
            f"{node.label} passed its deadline{allowed}",
            progress=task.progress or self.progress(),
            where=node.site,
            holds_content=False,
        )

    def exit(self, node: Node[Any], system_exit: SystemExit) -> NodeCancelled:
        """End the whole run in order, because a program called `sys.exit`.

        Returns:
            The error of the node of that program.
        """
        self.system_exit = self.system_exit or system_exit
        code = "" if system_exit.code is None else repr(system_exit.code)
        reason = f"sys.exit({code})"
        if self.root is not None and node is not self.root:
            self._post(internal_events.CancelRequested(self.run_id, self.root.id, reason))
        return NodeCancelled(f"{node.label} called {reason}", reason=reason)

    def end(self, error: AgentrtError) -> None:
        """End every node with `error`, and refuse new ones."""
        self._ended = error
        for task in list(self.tasks.values()):
            task.stop(error)
        for node in list(self.nodes.values()):
            fail(node, error)

    def forget(self, node_id: NodeId) -> tuple[LastWait | None, StopRequest | None]:
        """Drop what was kept for a node that has ended.

        Returns:
            The last wait of its code, and the request to end it, if there were such.
        """
        self.nodes.pop(node_id, None)
        for kept in self._kept:
            if kept:  # most are empty in most runs
                kept.pop(node_id, None)
        self.declared_with_holes.discard(node_id)
        self.deferred.discard(node_id)
        return self.last_waits.pop(node_id, None), self.stop_requests.pop(node_id, None)

    def progress(self) -> RunProgress:
        """The path that has taken the time until now."""
        return self._progress_of(self)

    def emit(self, text: str) -> None:
        """Hand text to the caller of the run."""
        if self.options.on_emit is not None:
            self.options.on_emit(text)
        if self.watch is not None:
            self.watch.emit(text)

    def _call_chain(self, node: Node[Any]) -> list[str]:
        """Call sites of the programs around a node, outermost first, and its own."""
        sites = [node.site]
        while (owner := node.scope.owner) is not None and owner in self.nodes:
            node = self.nodes[owner]
            sites.append(node.site)
        return sites[::-1]

    def _generation(self, node: Gen[Any], scope: OwningScope, now_s: float) -> NodeDeclared:
        work = node.work
        output, sampling = work.output, work.sampling
        links = since_answer(work.chat)
        inputs = inputs_in(links) if output.late is None else work.inputs()
        deps: tuple[NodeId, ...] = ()
        if inputs:
            deps = tuple([source.id for source in inputs if source.scope.run is self])
            if any(not source.done for source in inputs):
                self.declared_with_holes.add(node.id)
        attributes = sampling_attributes(sampling)
        attributes["agentrt.output.type"] = output.name
        if output.constraint is not None:
            attributes["agentrt.constraint.kind"] = output.constraint.kind
        if work.thinking_tokens is not None:
            attributes["agentrt.thinking.max_tokens"] = work.thinking_tokens
        if work.scored:
            attributes["agentrt.choice.scored"] = True
        if output.checked:
            attributes["agentrt.check.retries"] = work.retries
        fork_of: NodeId | None = None  # the first node that continues the same chat
        for chat in links:
            first = self._continued.setdefault(chat.serial, node.id)
            if first != node.id:
                fork_of = first
                break
        if (before := answer_of(links[-1])) is not None and before.scope.run is self:
            attributes["agentrt.prefix.continues"] = before.id
        waited = scope.waited
        engine = self._engines[work.model]
        if engine.adapter:
            attributes["agentrt.adapter"] = engine.adapter
        # Admission control looks at the first prompt of a run.
        is_first = not self.has_sent and engine.capabilities.kv_tokens > 0
        return NodeDeclared(
            self.run_id,
            node.id,
            "generate",
            node.name,
            scope.owner,
            deps,
            node.site,
            now_s,
            fork_of,
            None,  # no plan
            0,
            attributes,
            waited.node_id,
            waited.item,
            engine.role,
            "",  # no effects
            False,
            work.deadline_at_s,
            engine_deadline_s(node, now_s),
            engine.prompt_tokens(work, self.options.cache_salt) if is_first else 0,
            sampling.max_tokens,
        )  # by position: keywords would take twice as long

    def _other(self, node: Node[Any], scope: OwningScope, now_s: float) -> NodeDeclared:
        work = node.work
        waited = scope.waited
        tool = work if isinstance(work, ToolWork) else None
        attributes: dict[str, AttributeValue] = {}
        if tool is not None:
            attributes = {
                "gen_ai.tool.name": tool.spec.name,
                "gen_ai.tool.description": tool.spec.description,
                "agentrt.tool.effects": tool.spec.effects,
                **tool.spec.attributes,
            }
            if tool.spec.stable_for_s is not None:
                attributes["agentrt.tool.stable_for_s"] = tool.spec.stable_for_s
            if tool.call is not None:
                attributes["gen_ai.tool.call.id"] = tool.call.call_id
        sources = work.inputs if isinstance(work, ProgramWork) else ()
        deps = tuple([source.id for source in sources if source.scope.run is self])
        return NodeDeclared(
            self.run_id,
            node.id,
            node.kind,
            node.name,
            scope.owner,
            deps,
            node.site,
            now_s,
            None,  # no fork
            tool.plan.id if tool is not None and tool.plan is not None else None,
            tool.plan_item if tool is not None else 0,
            attributes,
            waited.node_id,
            waited.item,
            "",  # no engine
            tool.spec.effects if tool is not None else "",
            tool is not None and not tool.spec.is_async,
            work.deadline_at_s if isinstance(work, ToolWork | AskWork) else None,
            scope.deadline_at_s,
        )

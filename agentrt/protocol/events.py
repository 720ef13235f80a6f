"""Every fact of a run, as a frozen value.

The runtime's loop applies them, observers see them, telemetry and reports are built from nothing
else. Instants are seconds of the run's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Literal, Protocol

from agentrt.base.errors import ErrorRecord
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.record import record
from agentrt.protocol.step_output import BackendDown, Ledger, StepDone

NodeKind = Literal["generate", "tool", "program", "ask"]
Outcome = Literal["ok", "failed", "cancelled"]
AttributeValue = str | int | float | bool | tuple[str, ...]


@record
class RunStarted:
    """A run began: the caller's submit.

    Attributes:
        run_id: The run.
        program: Name of the program.
        source: `file:function`.
        at_s: When.
        unix_ns: The same instant on the calendar.
        deadline_s: Allowed for the run, or None.
        seed: Of the run.
        tenant: Who pays for it.
        priority: Above or below other runs of its tenant.
        true_service_s: Service that it will need of its engines, where a replay knows; None
            elsewhere.
    """

    run_id: RunId
    program: str
    source: str
    at_s: float
    unix_ns: int
    deadline_s: float | None = None
    seed: int = 0
    tenant: str = ""
    priority: int = 0
    true_service_s: float | None = None


@record
class NodeDeclared:
    """A node was made.

    Attributes:
        run_id: Its run.
        node_id: Its path in the run.
        kind: What it is.
        name: Low in cardinality: the call site's name, a tool's name.
        parent: The program node whose scope owns it; None for the run's root.
        deps: Nodes whose values it needs.
        fork_of: First node that continues the same chat; None when it is alone.
        plan: The streamed generation that one of its items started this tool call from.
        plan_item: Index of that item.
        site: `file:line` in the user's program.
        at_s: When.
        attributes: For its span, keyed by their OpenTelemetry names (`gen_ai.request.max_tokens`,
            `gen_ai.tool.description`, `agentrt.node.key` ...). Message content is welcome under its
            `gen_ai.*` name: telemetry drops it unless the user asked for capture.
        after: The last node that the declaring code really waited for (its `await` did not return
            at once) before it made this node; None when it has waited for none since its program
            began. The critical path goes through it when no value in `deps` arrived later.
        after_item: Index of the streamed item of `after` that the code waited for; None when it
            waited for the whole value.
        model: Role of the engine that a generation asks for.
        effects: Effect class of a tool.
        threaded: Whether it needs a worker thread.
        expires_at_s: When the node itself must be done, or None.
        deadline_at_s: When its engine must be done, its program's deadline included, or None.
        prompt_tokens: Of a generation that its run begins with: length of its prompt as far as it
            is known; 0 elsewhere.
        max_tokens: Of a generation: most that it may put out; 0 elsewhere.
    """

    run_id: RunId
    node_id: NodeId
    kind: NodeKind
    name: str
    parent: NodeId | None
    deps: tuple[NodeId, ...]
    site: str
    at_s: float
    fork_of: NodeId | None = None
    plan: NodeId | None = None
    plan_item: int = 0
    attributes: dict[str, AttributeValue] = field(default_factory=dict)
    after: NodeId | None = None
    after_item: int | None = None
    model: str = ""
    effects: str = ""
    threaded: bool = False
    expires_at_s: float | None = None
    deadline_at_s: float | None = None
    prompt_tokens: int = 0
    max_tokens: int = 0


@record
class NodeDemanded:
    """Somebody waits for the node."""

    run_id: RunId
    node_id: NodeId
    at_s: float


@record
class RequestSent:
    """A generation was handed to a backend.

    Attributes:
        run_id: Its run.
        node_id: Its node.
        request_id: Under which events come back.
        backend: Capabilities' name.
        model: That serves it.
        complete: False when the prompt still has holes.
        at_s: When.
        held_s: For how long the scheduler's admission gate held it back, up to `at_s`.
        prompt_tokens: Length of the prompt as it was sent; 0 where nobody has counted it.
    """

    run_id: RunId
    node_id: NodeId
    request_id: RequestId
    backend: str
    model: str
    complete: bool
    at_s: float
    held_s: float = 0.0
    prompt_tokens: int = 0


@record
class Scheduled:
    """The scheduler or an engine decided about a node, and what it went by.

    Attributes:
        run_id: Its run.
        node_id: Its node.
        at_s: When.
        decision: What was decided: `held` by the admission gate, `admitted` by it, `placed` in a
            step of its engine, `joined` to a like one under way, `speculated`, `refused`.
        reason: In a few words, for people.
        policy: By whose order; "" where order was not the question.
        terms: What was weighed, by name.
    """

    run_id: RunId
    node_id: NodeId
    at_s: float
    decision: str
    reason: str
    policy: str = ""
    terms: tuple[tuple[str, float], ...] = ()


@record
class PrefixLost:
    """Tokens that could not be shared, and why.

    Attributes:
        run_id: Its run.
        node_id: The node that pays.
        lost_tokens: How many have to be computed again.
        reason: `other_model`, `template_rewrite`, `tools_changed`, `overflow`.
        at_s: When.
    """

    run_id: RunId
    node_id: NodeId
    lost_tokens: int
    reason: str
    at_s: float


@record
class HoleFilled:
    """The last pending part of a prompt became known: from here the node could run."""

    run_id: RunId
    node_id: NodeId
    at_s: float


@record
class PromptRevised:
    """A generation is to be handed to its backend, once more where it was already.

    Its own prompt left too little room and `on_overflow` has looked at it, or so it went with one
    that it continues.

    Attributes:
        run_id: Its run.
        node_id: Its node.
        deps: Nodes whose values it needs besides those it was declared with.
        at_s: When.
    """

    run_id: RunId
    node_id: NodeId
    deps: tuple[NodeId, ...]
    at_s: float


@record
class FirstToken:
    """The first output of a generation reached the runtime."""

    run_id: RunId
    node_id: NodeId
    at_s: float


@record
class ItemClosed:
    """An item of a streamed output is complete (`each`, `calls`)."""

    run_id: RunId
    node_id: NodeId
    index: int
    at_s: float


@record
class AttemptFailed:
    """A whole answer did not pass its check: the node asks once more, or fails.

    Attributes:
        run_id: Its run.
        node_id: Its node.
        attempt: Counts from 0.
        reason: What did not pass, in the checker's words.
        ledger: The backend's account of this attempt.
        at_s: When it was known.
    """

    run_id: RunId
    node_id: NodeId
    attempt: int
    reason: str
    ledger: Ledger
    at_s: float


@record
class ToolStarted:
    """An attempt of a tool began to run (it has a worker)."""

    run_id: RunId
    node_id: NodeId
    attempt: int
    at_s: float


@record
class ToolEnded:
    """An attempt of a tool is over."""

    run_id: RunId
    node_id: NodeId
    attempt: int
    at_s: float
    error: ErrorRecord | None = None


@record
class NodeFinished:
    """A node has its value, its error, or was cancelled.

    Attributes:
        run_id: Its run.
        node_id: The node.
        outcome: How it ended.
        at_s: When the value was visible to the program.
        reason: Of a cancellation.
        error: Of a failure.
        ledger: The backend's account of a generation.
        closed_early: The output was driven to its shortest valid end.
        finish_reason: Of a generation.
        attributes: More for its span, known only now.
        after: Of a program: the last node that its code, or the end of its scope, really waited
            for; None when unknown or none. As in `NodeDeclared`. Of a node that a program's code
            asked to stop: what that code had waited for when it asked.
        after_item: As in `NodeDeclared`.
        stopped_at_s: When a program's code asked for the node's end (`cancel`, a lost race, the
            end of a scope after an error); None when it ended by itself or by a deadline.
    """

    run_id: RunId
    node_id: NodeId
    outcome: Outcome
    at_s: float
    reason: str = ""
    error: ErrorRecord | None = None
    ledger: Ledger | None = None
    closed_early: bool = False
    finish_reason: str = ""
    attributes: dict[str, AttributeValue] = field(default_factory=dict)
    after: NodeId | None = None
    after_item: int | None = None
    stopped_at_s: float | None = None


@record
class RunFinished:
    """The caller has the result: `at_s - RunStarted.at_s` is the compound latency."""

    run_id: RunId
    outcome: Outcome
    at_s: float
    error: ErrorRecord | None = None


NodeEvent = (
    NodeDeclared
    | NodeDemanded
    | RequestSent
    | Scheduled
    | PrefixLost
    | HoleFilled
    | PromptRevised
    | FirstToken
    | ItemClosed
    | AttemptFailed
    | ToolStarted
    | ToolEnded
    | NodeFinished
)
Event = RunStarted | NodeEvent | RunFinished | StepDone | BackendDown


class Observer(Protocol):
    """Whoever wants to know. One that raises is dropped and reported; it never breaks a run."""

    def see(self, events: Sequence[Event]) -> None:
        """Take a batch of events, in order. Must return at once."""
        ...

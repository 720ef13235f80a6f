"""Events of a run, as frozen values.

The runtime's loop applies them and observers receive them; telemetry and reports are built from
nothing else. Instants are seconds of the run's clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol

from agentrt.base.errors import ErrorRecord
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.record import record
from agentrt.base.trace_context import TraceContext
from agentrt.protocol.step_output import BackendDown, Ledger, StepDone

NodeKind = Literal["generate", "tool", "program", "ask"]
Outcome = Literal["ok", "failed", "cancelled"]
AttributeValue = str | int | float | bool | tuple[str, ...]


@record
class RunStarted:
    """A run began with the caller's submit.

    Attributes:
        run_id: The run.
        program: Name of the program.
        source: `file:function`.
        at_s: Instant.
        unix_ns: The same instant on the calendar.
        deadline_s: Time allowed for the run, or None.
        seed: Seed of the run.
        tenant: Tenant charged for the run.
        priority: Priority among the runs of its tenant.
        true_service_s: Service that the run will need of its engines, known in a replay only; None
            otherwise.
        true_kv_tokens: Peak of the KV that it will need of an engine, likewise.
        true_longest_tokens: Longest context that one of its generations will reach, likewise.
        session: Session of the tenant that the run belongs to; "" for none.
        caller: Span of the caller; None if the run begins a trace.
        trace_id: Trace of the run where a tracer provider has chosen it; "" otherwise.
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
    true_kv_tokens: float | None = None
    true_longest_tokens: float | None = None
    session: str = ""
    caller: TraceContext | None = None
    trace_id: str = ""


@record
class EventOfNode:
    """An event of one node.

    Attributes:
        run_id: The run.
        node_id: Path of the node in the run.
    """

    run_id: RunId
    node_id: NodeId


@record
class NodeDeclared(EventOfNode):
    """A node was made.

    Attributes:
        kind: Kind of the node.
        name: Name of low cardinality: the call site's name, or a tool's.
        parent: Program node that owns its scope; None for the run's root.
        deps: Nodes that give the values it needs.
        fork_of: First node that continues the same chat; None if there is no other.
        plan: Streamed generation that gave the item from which this tool call was started.
        plan_item: Index of that item.
        site: `file:line` in the user's program.
        at_s: Instant.
        attributes: Attributes of its span by their OpenTelemetry names
            (`gen_ai.request.max_tokens`, `gen_ai.tool.description`, `agentrt.node.key` ...).
            Message content may be included under its `gen_ai.*` name: telemetry drops it unless
            the user enabled capture.
        after: Last node that the declaring code really waited for (its `await` did not return at
            once) before it made this node; None if it has waited for none since its program began.
            The critical path goes through it if no value in `deps` arrived later.
        after_item: Index of the streamed item of `after` that the code waited for; None if it
            waited for the whole value.
        model: Role of the engine of a generation.
        effects: Effect class of a tool.
        threaded: Whether it needs a worker thread.
        expires_at_s: Deadline of the node itself, or None.
        deadline_at_s: Deadline of its request, its program's deadline included, or None.
        prompt_tokens: Known length of the prompt of a generation at the start of its run; 0
            otherwise.
        max_tokens: Limit of a generation's output; 0 for other nodes.
    """

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
class NodeDemanded(EventOfNode):
    """The program awaits the node."""

    at_s: float


@record
class RequestSent(EventOfNode):
    """A generation was sent to a backend.

    Attributes:
        request_id: Id of its backend events.
        backend: Name of the backend in its capabilities.
        model: Model of the backend.
        complete: False if the prompt still has holes.
        at_s: Instant.
        held_s: Time that admission control held it back, up to `at_s`.
        prompt_tokens: Length of the prompt as sent; 0 if not counted.
    """

    request_id: RequestId
    backend: str
    model: str
    complete: bool
    at_s: float
    held_s: float = 0.0
    prompt_tokens: int = 0


@record
class Scheduled(EventOfNode):
    """A decision of the scheduler or an engine about a node, and its reasons.

    Attributes:
        at_s: Instant.
        decision: `held` by admission control, `admitted` by it, `placed` in a step of its engine,
            `joined` to an equal generation in flight, `cached` or `missed` in the response cache,
            `speculated`, `refused`, `resubmitted` after its engine was lost.
        reason: Reason in a few words, for people.
        policy: Policy that decided the order; "" if order was not the question.
        terms: Terms of the decision, by name.
        worker: Address of the worker of a fleet that it is about; "" without one.
    """

    at_s: float
    decision: str
    reason: str
    policy: str = ""
    terms: tuple[tuple[str, float], ...] = ()
    worker: str = ""


@record
class PrefixLost(EventOfNode):
    """Tokens of a prefix that could not be shared.

    Attributes:
        lost_tokens: Number of tokens to compute again.
        reason: `other_model`, `template_rewrite`, `tools_changed`, `overflow`.
        at_s: Instant.
    """

    lost_tokens: int
    reason: str
    at_s: float


@record
class HoleFilled(EventOfNode):
    """The last pending part of a prompt became known: from here on the node can run."""

    at_s: float


@record
class PromptRevised(EventOfNode):
    """The prompt of a generation changed, to be sent again if it was sent already.

    Either its own prompt left too little room and `on_overflow` shortened it, or this happened to a
    chat that it continues.

    Attributes:
        deps: Nodes that give values it needs, besides the declared ones.
        at_s: Instant.
    """

    deps: tuple[NodeId, ...]
    at_s: float


@record
class FirstToken(EventOfNode):
    """The first output of a generation reached the runtime."""

    at_s: float


@record
class ItemClosed(EventOfNode):
    """An item of a streamed output is complete (`each`, `calls`)."""

    index: int
    at_s: float


@record
class AttemptFailed(EventOfNode):
    """A whole answer failed its check: the node tries once more, or fails.

    Attributes:
        attempt: Index of the attempt, from 0.
        reason: The failure in the checker's words.
        ledger: The backend's account of this attempt.
        at_s: Instant.
    """

    attempt: int
    reason: str
    ledger: Ledger
    at_s: float


@record
class ToolStarted(EventOfNode):
    """An attempt of a tool began to run (it has a worker)."""

    attempt: int
    at_s: float


@record
class ToolEnded(EventOfNode):
    """An attempt of a tool is over."""

    attempt: int
    at_s: float
    error: ErrorRecord | None = None


@record
class NodeFinished(EventOfNode):
    """A node has its value or its error, or was cancelled.

    Attributes:
        outcome: Kind of its end.
        at_s: Instant at which the value was visible to the program.
        reason: Reason of a cancellation.
        error: Error of a failure.
        ledger: The backend's account of a generation.
        closed_early: Whether the output was driven to its shortest valid end.
        finish_reason: Finish reason of a generation.
        attributes: Further attributes of its span.
        after: For a program: the last node that its code, or the end of its scope, really waited
            for; None if unknown or none; as in `NodeDeclared`. For a node stopped by a program's
            code: the node that the code had waited for by then.
        after_item: As in `NodeDeclared`.
        stopped_at_s: Instant at which a program's code stopped the node (`cancel`, a lost race, the
            end of a scope after an error); None if it ended by itself or by a deadline.
    """

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
    """The caller has the result: `at_s - RunStarted.at_s` is the compound latency.

    Attributes:
        run_id: The run.
        outcome: Kind of its end.
        at_s: Instant.
        error: Error of a failure.
        span_ids: Spans that nodes have in the tracer provider of the process; {} without one.
    """

    run_id: RunId
    outcome: Outcome
    at_s: float
    error: ErrorRecord | None = None
    span_ids: Mapping[NodeId, str] = field(default_factory=dict)


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
    """A consumer of events. One that raises is dropped and reported; it never breaks a run.

    Example:
        >>> from agentrt import Observer
        >>> class Kinds:
        ...     def __init__(self):
        ...         self.seen = []
        ...     def on_events(self, events):
        ...         self.seen += [type(event).__name__ for event in events]
        >>> kinds: Observer = Kinds()  # for open_runtime(observers=[kinds])
        >>> kinds.on_events([RunFinished("r1", "ok", at_s=2.0)])
        >>> kinds.seen
        ['RunFinished']
    """

    def on_events(self, events: Sequence[Event]) -> None:
        """Consume a batch of events, in order. Must return at once."""
        ...

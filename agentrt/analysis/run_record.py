"""Record of one run, collected from its events.

A record only stores; its analysis (order, critical path, split, slack) is computed by the modules
beside it, after the run. Events come in causal order, so each gets a sequence number: of two events
at the same instant the first may have caused the second, never the reverse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from agentrt.analysis.stage import Stage
from agentrt.base.errors import DeadlineExceeded, ErrorRecord
from agentrt.base.ids import NodeId, RequestId, RunId, trace_id_of
from agentrt.base.record import record
from agentrt.protocol import events
from agentrt.protocol.events import RunFinished, RunStarted
from agentrt.protocol.step_output import BackendDown, Ledger, StepDone, StepRecord

NEVER = 1 << 62
"""A sequence number after all events."""


@dataclass(slots=True)
class Attempt:
    """One attempt of a tool; `ended_at_s` is None while it runs."""

    started_at_s: float
    ended_at_s: float | None = None
    error: ErrorRecord | None = None


@record
class Closed:
    """Completion of an item of a streamed output."""

    at_s: float
    seq: int


@dataclass(slots=True, eq=False)
class NodeRecord:
    """Everything known of one node.

    Attributes:
        declared: Declaration of the node.
        seq: Sequence number of the declaration.
        parent: The program that declared it; None for the root.
        children: Nodes owned by its scope, in order of declaration (programs only).
        demanded_at_s: Instant of the first demand; None without one.
        sent: Requests sent to a backend; more than one after an engine died.
        filled_at_s: Instant at which the last hole was filled; None without holes.
        first_token_at_s: Arrival of the first output at the runtime.
        items: Completion of each streamed item, by index.
        attempts: Attempts of a tool.
        failed: Answers of a generation that failed their check, each with its request.
        lost: Prefixes that could not be shared.
        scheduled: Decisions of the scheduler about it, in order.
        finished: End of the node; None while it is open.
        finished_seq: Sequence number of the end.
        node_id: Path in the run.
        kind: Kind of node.
    """

    declared: events.NodeDeclared
    seq: int
    parent: NodeRecord | None = field(default=None, repr=False)
    children: Sequence[NodeRecord] = ()
    demanded_at_s: float | None = None
    sent: tuple[events.RequestSent, ...] = ()
    filled_at_s: float | None = None
    first_token_at_s: float | None = None
    items: dict[int, Closed] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()
    failed: tuple[tuple[events.RequestSent, events.AttemptFailed], ...] = ()
    lost: tuple[events.PrefixLost, ...] = ()
    scheduled: tuple[events.Scheduled, ...] = ()
    finished: events.NodeFinished | None = None
    finished_seq: int = 0
    node_id: NodeId = field(init=False)
    kind: events.NodeKind = field(init=False)

    def __post_init__(self) -> None:
        self.node_id = self.declared.node_id
        self.kind = self.declared.kind

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def outcome(self) -> events.Outcome | None:
        """Kind of the node's end; None while it is open."""
        return self.finished.outcome if self.finished else None

    @property
    def is_cut_off(self) -> bool:
        """Whether the node did not end by itself: how long it would have taken is not known.

        It was cancelled, passed a deadline, or was a tool whose last attempt timed out.
        """
        if self.finished is None or self.outcome == "cancelled":
            return True
        if self.outcome == "ok":
            return False
        error, attempts = self.finished.error, self.attempts
        late = attempts[-1].error if attempts else None
        return (error is not None and error.type == DeadlineExceeded.__name__) or (
            late is not None and late.type == TimeoutError.__name__
        )

    @property
    def end_seq(self) -> int:
        """Place of the node's end in causal order; open nodes come last, the innermost first."""
        return self.finished_seq if self.finished else NEVER - self.seq

    @property
    def ledger(self) -> Ledger | None:
        """The backend's account, if there is one."""
        return self.finished.ledger if self.finished else None


class RunRecord:
    """The events of one run; an observer.

    Args:
        run_id: The run to record; None takes the first one that starts.

    Attributes:
        staged: Stages of nodes, if the record was read back from a trace; else they are worked out.
    """

    def __init__(self, run_id: RunId | None = None) -> None:
        self._run_id = run_id
        self._seq = 0
        self._requests: set[RequestId] = set()
        self._bodies: dict[NodeId, list[NodeRecord]] = {}
        self.started: RunStarted | None = None
        self.finished: RunFinished | None = None
        self.nodes: dict[NodeId, NodeRecord] = {}
        self.staged: dict[NodeId, tuple[Stage, ...]] = {}
        self.steps: list[StepRecord] = []
        self.downs: list[BackendDown] = []
        self.has_after = False
        self.has_end_after = False
        self.last_at_s = 0.0

    @property
    def run_id(self) -> RunId:
        """Id of the run; empty before it started."""
        return self.started.run_id if self.started else (self._run_id or RunId(""))

    @property
    def trace_id(self) -> str:
        """Trace of the run: that of its caller, or of a tracer provider, or its own."""
        started = self.started
        if started is not None and started.caller is not None:
            return started.caller.trace_id
        return (started.trace_id if started else "") or trace_id_of(self.run_id)

    @property
    def started_at_s(self) -> float:
        """Instant of the caller's submit."""
        return self.started.at_s if self.started else 0.0

    @property
    def ended_at_s(self) -> float:
        """Instant at which the caller had the result; of a run cut short, its last event."""
        return self.finished.at_s if self.finished else self.last_at_s

    @property
    def compound_s(self) -> float:
        """Time from submit to result, on the caller's clock."""
        return self.ended_at_s - self.started_at_s

    @property
    def outcome(self) -> events.Outcome:
        """Kind of the run's end; a run cut short was cancelled."""
        return self.finished.outcome if self.finished else "cancelled"

    @property
    def is_cut_off(self) -> bool:
        """Whether the run was cancelled or passed its deadline: it has no end of its own."""
        root = self.root
        return self.outcome == "cancelled" or (root is not None and root.is_cut_off)

    @property
    def root(self) -> NodeRecord | None:
        """The program itself; None if the run failed before it began."""
        return next((node for node in self.nodes.values() if node.declared.parent is None), None)

    def end_of(self, node: NodeRecord) -> float:
        """End of the node; a node still open ends with the run."""
        return node.finished.at_s if node.finished else self.ended_at_s

    def on_events(self, events: Sequence[events.Event]) -> None:
        """Record a batch of events; those of other runs are ignored."""
        for event in events:
            self.add_event(event)

    def add_event(self, event: events.Event) -> None:
        """Record one event."""
        if isinstance(event, StepDone):
            if event.step is not None and not self._requests.isdisjoint(event.step.requests):
                self.steps.append(event.step)
        elif isinstance(event, BackendDown):
            if not self._requests.isdisjoint(event.lost):
                self.downs.append(event)
        elif isinstance(event, RunStarted):
            self._on_start(event)
        elif event.run_id == self._run_id:
            self._seq += 1
            if event.at_s > self.last_at_s:
                self.last_at_s = event.at_s
            if isinstance(event, RunFinished):
                self.finished = event
            else:
                self._on_node(event)

    def leaves(self) -> Iterator[NodeRecord]:
        """Nodes with work of their own: all but programs."""
        return (node for node in self.nodes.values() if node.kind != "program")

    def _on_start(self, event: RunStarted) -> None:
        if self._run_id is None:
            self._run_id = event.run_id
        if event.run_id == self._run_id:
            self.started = event
            self.last_at_s = event.at_s

    def _on_node(self, event: events.NodeEvent) -> None:
        if isinstance(event, events.NodeDeclared):
            self._declare(event)
            return
        node = self.nodes.get(event.node_id)
        if node is None:
            return
        match event:
            case events.NodeFinished():
                node.finished, node.finished_seq = event, self._seq
                self.has_end_after |= event.after is not None
                self.has_after |= self.has_end_after
            case events.NodeDemanded():
                if node.demanded_at_s is None:
                    node.demanded_at_s = event.at_s
            case events.RequestSent():
                node.sent += (event,)
                self._requests.add(event.request_id)
            case events.FirstToken():
                if node.first_token_at_s is None:
                    node.first_token_at_s = event.at_s
            case events.PrefixLost():
                node.lost += (event,)
            case events.Scheduled():
                node.scheduled += (event,)
            case events.HoleFilled():
                node.filled_at_s = event.at_s
            case events.PromptRevised():
                deps = (*node.declared.deps, *event.deps)
                node.declared = replace(node.declared, deps=tuple(dict.fromkeys(deps)))
            case events.ItemClosed():
                node.items.setdefault(event.index, Closed(event.at_s, self._seq))
            case events.AttemptFailed():
                if node.sent:
                    node.failed += ((node.sent[-1], event),)
            case events.ToolStarted():
                node.attempts += (Attempt(event.at_s),)
            case events.ToolEnded():
                if node.attempts:
                    node.attempts[-1].ended_at_s = event.at_s
                    node.attempts[-1].error = event.error

    def _declare(self, event: events.NodeDeclared) -> None:
        parent = self.nodes.get(event.parent) if event.parent else None
        node = self.nodes[event.node_id] = NodeRecord(event, self._seq, parent)
        self.has_after |= event.after is not None
        if parent is not None:
            body = self._bodies.get(parent.node_id)
            if body is None:  # a list for each node would be most of what a long run keeps
                parent.children = self._bodies[parent.node_id] = body = []
            body.append(node)

"""The process table: every run and node that the scheduler knows, changed by `apply` alone."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from agentrt.backend import RequestFacts
from agentrt.events import NodeDeclared, NodeKind
from agentrt.ids import NodeId, RequestId, RunId

Status = Literal["waiting", "running", "ended"]


class NodeState:
    """What is known of one node.

    Attributes:
        run: Its run.
        node_id: Its path.
        kind: What it is.
        name: Of its call site.
        order: Counts nodes as they were declared, over all runs.
        model: Role of its engine.
        parent: The program node that owns it.
        inputs: Nodes whose values it needs.
        dependents: Nodes that need its value, while it has none.
        children: Of a program: nodes in its body that have not ended.
        missing: How many inputs have not ended.
        holds: How many reasons keep it from starting.
        status: Where it stands.
        starts_incomplete: Its engine takes prompts with holes.
        threaded: It needs a worker thread.
        awaited: Code waits for it.
        demanded: That code is itself demanded, or a demanded node needs it.
        stopping: It has been told to end.
        request_id: Of its generation, once sent.
        expires_at_s: When it must be done, or None.
        deadline_at_s: When its engine must be done, or None.
        declared_at_s: When it was made.
        finished_at_s: When it ended; 0.0 before.
        after: What its code had waited for before.
    """

    __slots__ = (
        "after",
        "awaited",
        "children",
        "deadline_at_s",
        "declared_at_s",
        "demanded",
        "dependents",
        "expires_at_s",
        "finished_at_s",
        "holds",
        "inputs",
        "kind",
        "missing",
        "model",
        "name",
        "node_id",
        "order",
        "parent",
        "request_id",
        "run",
        "starts_incomplete",
        "status",
        "stopping",
        "threaded",
    )

    def __init__(self, run: RunState, event: NodeDeclared, order: int) -> None:
        self.run = run
        self.node_id = event.node_id
        self.kind: NodeKind = event.kind
        self.name = event.name
        self.order = order
        self.model = event.model
        self.parent = run.nodes.get(event.parent) if event.parent is not None else None
        self.inputs: list[NodeState] = []
        self.dependents: list[NodeState] = []
        self.children: dict[NodeState, None] = {}
        self.missing = 0
        self.holds = 0
        self.status: Status = "waiting"
        self.starts_incomplete = False
        self.threaded = event.threaded
        self.awaited = False
        self.demanded = False
        self.stopping = False
        self.request_id: RequestId | None = None
        self.expires_at_s = event.expires_at_s
        self.deadline_at_s = event.deadline_at_s
        self.declared_at_s = event.at_s
        self.finished_at_s = 0.0
        self.after = event.after

    def facts(self) -> RequestFacts:
        """What its engine needs for the order of waiting work."""
        assert self.request_id is not None
        return RequestFacts(
            self.request_id,
            self.demanded,
            self.run.started_at_s,
            deadline_at_s=self.deadline_at_s,
        )


class RunState:
    """What is known of one run.

    Attributes:
        run_id: The run.
        started_at_s: When it began.
        nodes: By id, ended ones too.
    """

    __slots__ = ("nodes", "run_id", "started_at_s")

    def __init__(self, run_id: RunId, started_at_s: float) -> None:
        self.run_id = run_id
        self.started_at_s = started_at_s
        self.nodes: dict[NodeId, NodeState] = {}


class State:
    """All runs of one runtime, and what has to be decided next.

    Attributes:
        incomplete_roles: Roles of engines that take prompts with holes.
        max_threaded: Most tools in worker threads at once.
        runs: By id.
        declared: Nodes ever declared.
        ready: Could start now.
        to_fill: Have a request, or wait, and an input of theirs has ended.
        to_stop: Are to end, with the reason.
        to_tell: Have a request whose facts have changed.
        timers: Heap of (deadline, order, node).
        threaded: Tools in worker threads now.
        free_pages: KV pages free, as last told.
        evictable_pages: KV pages that could be freed, as last told.
    """

    __slots__ = (
        "declared",
        "evictable_pages",
        "free_pages",
        "incomplete_roles",
        "max_threaded",
        "ready",
        "runs",
        "threaded",
        "timers",
        "to_fill",
        "to_stop",
        "to_tell",
    )

    def __init__(self, *, incomplete_roles: Collection[str] = (), max_threaded: int = 16) -> None:
        self.incomplete_roles = frozenset(incomplete_roles)
        self.max_threaded = max_threaded
        self.runs: dict[RunId, RunState] = {}
        self.declared = 0
        self.ready: dict[NodeState, None] = {}
        self.to_fill: dict[NodeState, None] = {}
        self.to_stop: dict[NodeState, str] = {}
        self.to_tell: dict[NodeState, None] = {}
        self.timers: list[tuple[float, int, NodeState]] = []
        self.threaded = 0
        self.free_pages = 0
        self.evictable_pages = 0

    def next_deadline_s(self) -> float | None:
        """When the next deadline passes, or None."""
        return self.timers[0][0] if self.timers else None

    def node(self, run_id: RunId, node_id: NodeId) -> NodeState | None:
        """A node that is known and has not ended, else None."""
        run = self.runs.get(run_id)
        node = run.nodes.get(node_id) if run is not None else None
        return None if node is None or node.status == "ended" else node

"""State of a run and of its nodes; only `apply` changes it."""

from __future__ import annotations

from typing import Literal

from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.protocol.events import NodeDeclared, NodeKind, RunStarted
from agentrt.scheduler.estimates.estimates import Estimates, SiteEstimates, site_of
from agentrt.scheduler.runs.fair_share import TenantAccount
from agentrt.scheduler.runs.footprint import Footprint

Status = Literal["waiting", "running", "ended"]
MIN_REST_SHARE = 0.05
"""Share of its expected service that a run which has attained all of it still needs."""


class RunState:
    """State of one run.

    Attributes:
        run_id: Id of the run.
        template: Program that was started, as spelled in the estimates.
        started_at_s: Start of the run.
        deadline_at_s: Deadline of the whole run, or None.
        tenant: Tenant that is charged.
        account: Service of the tenant.
        priority: Priority among the runs of its tenant.
        estimates: Estimates from past runs.
        nodes: Nodes by id, ended ones included.
        attained_s: Service so far.
        true_service_s: Total service, if known from a replay.
        waiting: Nodes that could run and wait for their engine or for admission.
        path_p50_s: Median of the remaining time learned for its latest new node.
        path_p90_s: Ninth decile of the same time.
        depth: Nodes expected on that path.
        admitted: Whether it is admitted, or admission control is off.
        held: Generations held back by admission control.
        active_generations: Generations with their engine that could run; counted only for engines
            that report their memory.
        reported_rest_s: Remaining service as the engines know it.
        rerank_at_nodes: Number of nodes at which all ranks are recomputed.
        footprints: KV footprint by role of the engine; only for engines that report their memory.
    """

    __slots__ = (
        "_mark_at_s",
        "_mark_attained_s",
        "_mark_rest_s",
        "_waited_at_s",
        "_waited_s",
        "account",
        "active_generations",
        "admitted",
        "attained_s",
        "deadline_at_s",
        "depth",
        "estimates",
        "footprints",
        "held",
        "nodes",
        "path_p50_s",
        "path_p90_s",
        "priority",
        "reported_rest_s",
        "rerank_at_nodes",
        "run_id",
        "started_at_s",
        "template",
        "tenant",
        "true_service_s",
        "waiting",
    )

    def __init__(self, event: RunStarted, estimates: Estimates, account: TenantAccount) -> None:
        self.run_id: RunId = event.run_id
        self.template = template_of(event.program, event.source)
        self.started_at_s = event.at_s
        self.deadline_at_s = None if event.deadline_s is None else event.at_s + event.deadline_s
        self.tenant = event.tenant
        self.account = account
        self.priority = event.priority
        self.estimates = estimates
        self.nodes: dict[NodeId, NodeState] = {}
        self.attained_s = 0.0
        self.waiting: dict[NodeState, None] = {}
        self.path_p50_s = 0.0
        self.path_p90_s = 0.0
        self.depth = 0.0
        self.admitted = False
        self.held: dict[NodeState, None] = {}
        self.active_generations = 0
        self.footprints: dict[str, Footprint] = {}
        self.reported_rest_s = 0.0
        self.rerank_at_nodes = 0
        self._waited_s = 0.0
        self._waited_at_s = event.at_s
        self.true_service_s = event.true_service_s
        self._mark_at_s = event.at_s
        self._mark_attained_s = 0.0
        self._mark_rest_s = 0.0

    @property
    def rest_s(self) -> float:
        """Expected remaining service, all branches; 0.0 if nothing is known."""
        expected_s = self._mark_rest_s
        left_s = expected_s - (self.attained_s - self._mark_attained_s)
        min_s = MIN_REST_SHARE * expected_s
        return left_s if left_s > min_s else min_s

    @property
    def true_rest_s(self) -> float | None:
        """True remaining service, if known from a replay."""
        whole_s = self.true_service_s
        return None if whole_s is None else max(0.0, whole_s - self.attained_s)

    def waited_until(self, now_s: float) -> float:
        """Sum of the waits of its runnable nodes, in seconds."""
        since_s = now_s - self._waited_at_s
        return self._waited_s + len(self.waiting) * since_s if since_s > 0.0 else self._waited_s

    def start_waiting(self, node: NodeState, at_s: float) -> None:
        """Note that a node could run and waits."""
        waiting = self.waiting
        if node not in waiting:
            if waiting:
                self._waited_s += len(waiting) * max(0.0, at_s - self._waited_at_s)
            self._waited_at_s = at_s
            waiting[node] = None

    def stop_waiting(self, node: NodeState, at_s: float) -> None:
        """Note that a node no longer waits."""
        waiting = self.waiting
        if node in waiting:
            self._waited_s += len(waiting) * max(0.0, at_s - self._waited_at_s)
            self._waited_at_s = at_s
            del waiting[node]

    def admit(self, at_s: float) -> None:
        """Admit the run: its remaining time counts from now on."""
        self.admitted = True
        self._mark_at_s = at_s

    @property
    def ends_at_s(self) -> float | None:
        """Ninth decile of its end; None if nothing is known."""
        return self._mark_at_s + self.path_p90_s if self.path_p90_s > 0.0 else None

    def update_path(self, node: NodeState, at_s: float) -> None:
        """Update the remaining time from a new node: what past runs still needed there.

        The path is the longest of the open ones: a short new branch does not shorten the remaining
        time of a long one.
        """
        site = node.estimates.known_at_depth(node.depth)
        path = site.histogram_of("path_s")
        if path is None:
            return
        passed_s = at_s - self._mark_at_s
        self._mark_at_s = at_s
        p50_s = node.rank_s = path.quantile(0.5)
        self.path_p50_s = max(p50_s, self.path_p50_s - passed_s)
        self.path_p90_s = max(path.quantile(0.9), self.path_p90_s - passed_s)
        self.depth = site.mean("depth")
        self._mark_rest_s = site.mean("rest_s")
        self._mark_attained_s = self.attained_s


class NodeState:
    """State of one node.

    Attributes:
        run: Run of the node.
        node_id: Path of the node.
        kind: Kind of the node.
        name: Name of its call site.
        estimates: Estimates of its call site.
        depth: Nodes on the longest chain of its causes.
        arrival: Order of declaration, over all runs.
        model: Role of its engine.
        parent: Program node that owns it.
        causes: Nodes that had to exist or end before it could begin, ended or not.
        inputs: Nodes that still owe it a value.
        dependents: Unfinished nodes that need its value, while it has none.
        children: Unfinished nodes in the body of a program.
        unfinished_inputs: Number of inputs that have not ended.
        holds: Number of reasons that keep it from starting.
        status: Stage of the node.
        starts_incomplete: Whether its engine takes prompts with holes.
        needs_thread: Whether it needs a worker thread.
        awaited: Whether code awaits it.
        demanded: Whether that code is itself demanded, or a demanded node needs it.
        is_stopping: Whether it has been ordered to end.
        request_id: Number of its request, once sent.
        expires_at_s: Deadline of the node, or None.
        deadline_at_s: Deadline of its engine, or None.
        declared_at_s: Instant of its declaration.
        held_at_s: Instant since which admission control holds it back, or None.
        started_at_s: Instant at which a tool got a thread, or a generation was admitted to a step;
            None before.
        finished_at_s: Instant of its end; 0.0 before.
        end_index: Order of ends, over all runs; 0 before.
        after: Node that its code awaited before.
        rank_s: Expected time from its start to the end of its run, on the longest path.
        reported_rank_s: Rank as its engine knows it.
        attained_before_s: Service of its run when it was declared.
        busy_s: Working time, once it has ended; for a generation, its time in steps.
        context_tokens: Expected own KV of a generation in flight.
        prompt_tokens: Length of its prompt as sent; before, the known part.
        max_tokens: Output limit of a generation; 0 if not given.
        fork_of: First node that continues the same chat; None if it is alone.
    """

    __slots__ = (
        "after",
        "arrival",
        "attained_before_s",
        "awaited",
        "busy_s",
        "causes",
        "children",
        "context_tokens",
        "deadline_at_s",
        "declared_at_s",
        "demanded",
        "dependents",
        "depth",
        "end_index",
        "estimates",
        "expires_at_s",
        "finished_at_s",
        "fork_of",
        "held_at_s",
        "holds",
        "inputs",
        "is_stopping",
        "kind",
        "max_tokens",
        "model",
        "name",
        "needs_thread",
        "node_id",
        "parent",
        "prompt_tokens",
        "rank_s",
        "reported_rank_s",
        "request_id",
        "run",
        "started_at_s",
        "starts_incomplete",
        "status",
        "unfinished_inputs",
    )

    def __init__(self, run: RunState, event: NodeDeclared, arrival: int) -> None:
        self.run = run
        self.node_id = event.node_id
        self.kind: NodeKind = event.kind
        self.name = event.name
        self.estimates: SiteEstimates = run.estimates.site(
            run.template, site_of(event.name, event.site)
        )
        self.depth = 0
        self.arrival = arrival
        self.model = event.model
        self.parent = run.nodes.get(event.parent) if event.parent is not None else None
        self.causes: list[NodeState] = []
        self.inputs: list[NodeState] = []
        self.dependents: dict[NodeState, None] = {}
        self.children: dict[NodeState, None] = {}
        self.unfinished_inputs = 0
        self.holds = 0
        self.status: Status = "waiting"
        self.starts_incomplete = False
        self.needs_thread = event.threaded
        self.awaited = False
        self.demanded = False
        self.is_stopping = False
        self.request_id: RequestId | None = None
        self.expires_at_s = event.expires_at_s
        self.deadline_at_s = event.deadline_at_s
        self.declared_at_s = event.at_s
        self.held_at_s: float | None = None
        self.started_at_s: float | None = None
        self.finished_at_s = 0.0
        self.end_index = 0
        self.after = event.after
        self.rank_s = 0.0
        self.reported_rank_s = 0.0
        self.attained_before_s = run.attained_s
        self.busy_s = 0.0
        self.context_tokens = 0.0
        self.prompt_tokens = event.prompt_tokens
        self.max_tokens = event.max_tokens
        self.fork_of = event.fork_of


def template_of(program: str, source: str) -> str:
    """Spelling of a program in the estimates: its name, and `file:function`."""
    return f"{program} {source}" if source else program

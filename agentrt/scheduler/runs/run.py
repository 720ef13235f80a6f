"""State of a run and of its nodes; only `apply` changes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.protocol.events import NodeDeclared, NodeKind, RunStarted
from agentrt.scheduler.estimates.estimates import Estimates, SiteEstimates, site_of
from agentrt.scheduler.runs.fair_share import TenantAccount
from agentrt.scheduler.runs.footprint import Footprint
from agentrt.scheduler.runs.session import SessionAccount

Status = Literal["waiting", "running", "ended"]
MIN_REST_SHARE = 0.05
"""Share of its expected service that a run which has attained all of it still needs."""


@dataclass(slots=True, eq=False, repr=False)
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
        session: Session of the run, or None.
        session_started_at_s: Start of its session; its own without one.
        estimates: Estimates from past runs.
        nodes: Nodes by id, ended ones included.
        attained_s: Service so far.
        true_service_s: Total service, if known from a replay.
        true_kv_tokens: Peak of its KV on an engine, if known from a replay.
        true_longest_tokens: Longest context of the run, if known from a replay.
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

    run_id: RunId
    template: str
    started_at_s: float
    deadline_at_s: float | None
    tenant: str
    account: TenantAccount
    priority: int
    estimates: Estimates
    true_service_s: float | None
    true_kv_tokens: float | None
    true_longest_tokens: float | None
    nodes: dict[NodeId, NodeState] = field(default_factory=dict)
    attained_s: float = 0.0
    waiting: dict[NodeState, None] = field(default_factory=dict)
    path_p50_s: float = 0.0
    path_p90_s: float = 0.0
    depth: float = 0.0
    admitted: bool = False
    held: dict[NodeState, None] = field(default_factory=dict)
    active_generations: int = 0
    footprints: dict[str, Footprint] = field(default_factory=dict)
    reported_rest_s: float = 0.0
    rerank_at_nodes: int = 0
    _waited_s: float = 0.0
    _waited_at_s: float = 0.0
    _mark_at_s: float = 0.0
    _mark_attained_s: float = 0.0
    _mark_rest_s: float = 0.0
    session: SessionAccount | None = None
    session_started_at_s: float = 0.0

    @classmethod
    def begin(
        cls,
        event: RunStarted,
        estimates: Estimates,
        account: TenantAccount,
        session: SessionAccount | None = None,
    ) -> RunState:
        """State of a run that has just started."""
        return cls(
            event.run_id,
            template_of(event.program, event.source),
            event.at_s,
            None if event.deadline_s is None else event.at_s + event.deadline_s,
            event.tenant,
            account,
            event.priority,
            estimates,
            event.true_service_s,
            event.true_kv_tokens,
            event.true_longest_tokens,
            _waited_s=0.0 if session is None else session.waited_s,
            _waited_at_s=event.at_s,
            _mark_at_s=event.at_s,
            session=session,
            session_started_at_s=event.at_s if session is None else session.started_at_s,
        )

    @property
    def earlier_s(self) -> float:
        """Service of the other runs of its session."""
        return 0.0 if self.session is None else max(0.0, self.session.attained_s - self.attained_s)

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
        """Time for which some runnable node of it has waited, in seconds.

        Waits of several nodes at once count once. If they added up, a fork would age by as many
        seconds a second as it has branches, and overtake what is a tenth of its length.
        """
        since_s = now_s - self._waited_at_s
        return self._waited_s + since_s if self.waiting and since_s > 0.0 else self._waited_s

    def start_waiting(self, node: NodeState, at_s: float) -> None:
        """Note that a node could run and waits."""
        waiting = self.waiting
        if node not in waiting:
            if not waiting:
                self._waited_at_s = at_s
            waiting[node] = None

    def stop_waiting(self, node: NodeState, at_s: float) -> None:
        """Note that a node no longer waits."""
        waiting = self.waiting
        if node in waiting:
            del waiting[node]
            if not waiting:
                self._waited_s += max(0.0, at_s - self._waited_at_s)

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
        outlook = node.estimates.known_at_depth(node.depth).outlook()
        if outlook is None:
            return
        passed_s = at_s - self._mark_at_s
        self._mark_at_s = at_s
        node.rank_s = outlook.path_p50_s
        self.path_p50_s = max(outlook.path_p50_s, self.path_p50_s - passed_s)
        self.path_p90_s = max(outlook.path_p90_s, self.path_p90_s - passed_s)
        self.depth = outlook.depth
        self._mark_rest_s = outlook.rest_s
        self._mark_attained_s = self.attained_s


@dataclass(slots=True, eq=False, repr=False)
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

    run: RunState
    node_id: NodeId
    kind: NodeKind
    name: str
    estimates: SiteEstimates
    arrival: int
    model: str
    parent: NodeState | None
    needs_thread: bool
    expires_at_s: float | None
    deadline_at_s: float | None
    declared_at_s: float
    after: NodeId | None
    attained_before_s: float
    prompt_tokens: int
    max_tokens: int
    fork_of: NodeId | None
    depth: int = 0
    causes: tuple[NodeState, ...] = ()
    inputs: tuple[NodeState, ...] = ()
    dependents: dict[NodeState, None] = field(default_factory=dict)
    children: dict[NodeState, None] = field(default_factory=dict)
    unfinished_inputs: int = 0
    holds: int = 0
    status: Status = "waiting"
    starts_incomplete: bool = False
    awaited: bool = False
    demanded: bool = False
    is_stopping: bool = False
    request_id: RequestId | None = None
    held_at_s: float | None = None
    started_at_s: float | None = None
    finished_at_s: float = 0.0
    end_index: int = 0
    rank_s: float = 0.0
    reported_rank_s: float = 0.0
    busy_s: float = 0.0
    context_tokens: float = 0.0

    @classmethod
    def declare(cls, run: RunState, event: NodeDeclared, arrival: int) -> NodeState:
        """State of a node that has just been declared."""
        return cls(
            run,
            event.node_id,
            event.kind,
            event.name,
            run.estimates.site(run.template, site_of(event.name, event.site)),
            arrival,
            event.model,
            None if event.parent is None else run.nodes.get(event.parent),
            event.threaded,
            event.expires_at_s,
            event.deadline_at_s,
            event.at_s,
            event.after,
            run.attained_s,
            event.prompt_tokens,
            event.max_tokens,
            event.fork_of,
        )


def template_of(program: str, source: str) -> str:
    """Spelling of a program in the estimates: its name, and `file:function`."""
    return f"{program} {source}" if source else program

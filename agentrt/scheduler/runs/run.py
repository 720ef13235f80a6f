"""What is known of one run and of its nodes; changed by `apply` alone."""

from __future__ import annotations

from typing import Literal

from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.protocol.events import NodeDeclared, NodeKind, RunStarted
from agentrt.scheduler.estimates.estimates import Estimates, SiteEstimates, site_of
from agentrt.scheduler.runs.fair_share import TenantAccount
from agentrt.scheduler.runs.footprint import Footprint

Status = Literal["waiting", "running", "ended"]
LEAST_REST = 0.05
"""A run that had all the service it was expected to need still needs this share of it."""


class RunState:
    """What is known of one run.

    Attributes:
        run_id: The run.
        template: The program that was started, as past runs of it are found.
        started_at_s: When it began.
        deadline_at_s: When all of it must be done, or None.
        tenant: Who pays for it.
        account: What the tenant had.
        priority: Above or below other runs of its tenant.
        estimates: What past runs tell.
        nodes: By id, ended ones too.
        attained_s: Service that it has had.
        true_service_s: All that it will need, where a replay has said so.
        waiting: Its nodes that could run and wait for their engine or the admission gate.
        path_p50_s: Median of the learned time that it still needed at its latest new node.
        path_p90_s: The same time, which nine of ten runs stay within.
        depth: Nodes expected on that path.
        admitted: The admission gate let it in, or there is none.
        held: Its generations that the gate holds.
        working: How many its engines have that could run; counted where engines tell their memory.
        rank_anew_at: When it has so many nodes their ranks are worked out anew.
        footprints: KV that it needs, by role of the engine; only where engines tell their memory.
    """

    __slots__ = (
        "_mark_at_s",
        "_mark_attained_s",
        "_mark_rest_s",
        "_waited_at_s",
        "_waited_s",
        "account",
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
        "rank_anew_at",
        "run_id",
        "started_at_s",
        "template",
        "tenant",
        "told_rest_s",
        "true_service_s",
        "waiting",
        "working",
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
        self.working = 0
        self.footprints: dict[str, Footprint] = {}
        self.told_rest_s = 0.0
        self.rank_anew_at = 0
        self._waited_s = 0.0
        self._waited_at_s = event.at_s
        self.true_service_s = event.true_service_s
        self._mark_at_s = event.at_s
        self._mark_attained_s = 0.0
        self._mark_rest_s = 0.0

    @property
    def rest_s(self) -> float:
        """Learned service that it still needs, all branches; 0.0 when nothing is known."""
        expected_s = self._mark_rest_s
        left_s = expected_s - (self.attained_s - self._mark_attained_s)
        least_s = LEAST_REST * expected_s
        return left_s if left_s > least_s else least_s

    @property
    def true_rest_s(self) -> float | None:
        """What it really needs, where a replay has said so."""
        whole_s = self.true_service_s
        return None if whole_s is None else max(0.0, whole_s - self.attained_s)

    def waited_until(self, now_s: float) -> float:
        """How long its runnable nodes have waited, all added up."""
        since_s = now_s - self._waited_at_s
        return self._waited_s + len(self.waiting) * since_s if since_s > 0.0 else self._waited_s

    def wait(self, node: NodeState, at_s: float) -> None:
        """A node of it can run and waits."""
        waiting = self.waiting
        if node not in waiting:
            if waiting:
                self._waited_s += len(waiting) * max(0.0, at_s - self._waited_at_s)
            self._waited_at_s = at_s
            waiting[node] = None

    def wait_no_more(self, node: NodeState, at_s: float) -> None:
        """A node of it has what it waited for, or needs it no more."""
        waiting = self.waiting
        if node in waiting:
            self._waited_s += len(waiting) * max(0.0, at_s - self._waited_at_s)
            self._waited_at_s = at_s
            del waiting[node]

    def begin(self, at_s: float) -> None:
        """The admission gate lets it in: what it needs it needs from here on."""
        self.admitted = True
        self._mark_at_s = at_s

    @property
    def ends_at_s(self) -> float | None:
        """By when nine of ten of its like have ended; None when nothing is known."""
        return self._mark_at_s + self.path_p90_s if self.path_p90_s > 0.0 else None

    def mark(self, node: NodeState, at_s: float) -> None:
        """A new node tells how far the run has come: what past runs still needed there.

        The path is the longest of those that are still open: a short new branch does not shorten
        what a long one needed a moment ago.
        """
        place = node.place.known_at(node.depth)
        path = place.of("path_s")
        if path is None:
            return
        passed_s = at_s - self._mark_at_s
        self._mark_at_s = at_s
        p50_s = node.rank_s = path.quantile(0.5)
        self.path_p50_s = max(p50_s, self.path_p50_s - passed_s)
        self.path_p90_s = max(path.quantile(0.9), self.path_p90_s - passed_s)
        self.depth = place.mean("depth")
        self._mark_rest_s = place.mean("rest_s")
        self._mark_attained_s = self.attained_s


class NodeState:
    """What is known of one node.

    Attributes:
        run: Its run.
        node_id: Its path.
        kind: What it is.
        name: Of its call site.
        place: Its call site, where its kind's quantities are learned.
        depth: Nodes on the longest chain of what it waited for.
        order: Counts nodes as they were declared, over all runs.
        model: Role of its engine.
        parent: The program node that owns it.
        causes: What had to be there before it could be declared or begin, ended or not.
        inputs: Nodes whose values it needs, while they have none.
        dependents: Nodes that need its value, while it has none and they have not ended.
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
        held_at_s: Since when the admission gate holds it; None where it does not.
        started_at_s: When a tool had a worker, or a generation its place in a step; None before.
        finished_at_s: When it ended; 0.0 before.
        ended: Counts nodes as they ended, over all runs; 0 before.
        after: What its code had waited for before.
        rank_s: Expected time from its start to the end of its run, along the longest path.
        told_rank_s: The same as its engine knows it.
        attained_before_s: Service that its run had had when it was declared.
        busy_s: How long it worked, once it ended; of a generation, its time in steps.
        context_tokens: Of a generation under way: KV that it makes itself, as expected.
        prompt_tokens: Length of its prompt as it was sent; before, as far as that is known.
        max_tokens: Most that a generation may put out; 0 where that was not said.
        fork_of: First node that continues the same chat; None when it is alone.
    """

    __slots__ = (
        "after",
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
        "ended",
        "expires_at_s",
        "finished_at_s",
        "fork_of",
        "held_at_s",
        "holds",
        "inputs",
        "kind",
        "max_tokens",
        "missing",
        "model",
        "name",
        "node_id",
        "order",
        "parent",
        "place",
        "prompt_tokens",
        "rank_s",
        "request_id",
        "run",
        "started_at_s",
        "starts_incomplete",
        "status",
        "stopping",
        "threaded",
        "told_rank_s",
    )

    def __init__(self, run: RunState, event: NodeDeclared, order: int) -> None:
        self.run = run
        self.node_id = event.node_id
        self.kind: NodeKind = event.kind
        self.name = event.name
        self.place: SiteEstimates = run.estimates.place(
            run.template, site_of(event.name, event.site)
        )
        self.depth = 0
        self.order = order
        self.model = event.model
        self.parent = run.nodes.get(event.parent) if event.parent is not None else None
        self.causes: list[NodeState] = []
        self.inputs: list[NodeState] = []
        self.dependents: dict[NodeState, None] = {}
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
        self.held_at_s: float | None = None
        self.started_at_s: float | None = None
        self.finished_at_s = 0.0
        self.ended = 0
        self.after = event.after
        self.rank_s = 0.0
        self.told_rank_s = 0.0
        self.attained_before_s = run.attained_s
        self.busy_s = 0.0
        self.context_tokens = 0.0
        self.prompt_tokens = event.prompt_tokens
        self.max_tokens = event.max_tokens
        self.fork_of = event.fork_of


def template_of(program: str, source: str) -> str:
    """A program as places spell it: its name, and `file:function`."""
    return f"{program} {source}" if source else program

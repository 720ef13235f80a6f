"""What is known of one node; changed by `apply` alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from agentrt.base.ids import RequestId
from agentrt.protocol.events import NodeDeclared, NodeKind
from agentrt.scheduler.estimates.estimates import SiteEstimates, site_of

if TYPE_CHECKING:
    from agentrt.scheduler.runs.run import RunState

Status = Literal["waiting", "running", "ended"]


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

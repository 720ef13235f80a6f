"""The scheduler's state: every run and node that it knows; only `apply` changes it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from agentrt.base.config import SchedulerConfig
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.scheduler.admission.controller import AdmissionControl
from agentrt.scheduler.decisions import Refusal
from agentrt.scheduler.estimates.estimates import Estimates
from agentrt.scheduler.order.order import Order
from agentrt.scheduler.order.tool_slots import ToolSlots
from agentrt.scheduler.policies.registry import policy
from agentrt.scheduler.runs.fair_share import FairShare
from agentrt.scheduler.runs.run import NodeState, RunState, Status
from agentrt.scheduler.runs.session import Sessions

__all__ = ["NodeState", "RunState", "State", "Status"]


class State:
    """All runs of one runtime, and the nodes that need a decision.

    Args:
        incomplete_roles: Roles of engines that take prompts with holes.
        max_threads: Most tools in worker threads at once.
        config: Config of the scheduler.
        estimates: Estimates from past runs; they go on learning.
        kv_tokens: Tokens of KV by role: on the device, and in CPU memory.

    Attributes:
        config: Config of the scheduler.
        estimates: Estimates from past runs.
        order: Order of waiting runs and requests.
        fair_share: Service of each tenant.
        sessions: Service of sessions, which join runs.
        admission: Admission control by KV budget.
        runs: Runs by id.
        declared_count: Nodes ever declared.
        ended_count: Nodes ever ended.
        requests: Nodes by the number of their request.
        next_request: Number of the next request.
        ready: Nodes that can start now, except those that need a worker thread.
        tool_slots: Tools that need a worker thread.
        to_fill: Nodes with a request or waiting, with an input that has ended.
        to_stop: Nodes to end, with the reason.
        to_refuse: Nodes to end before they begin, with the reason.
        to_update: Nodes with a request and changed scheduling info.
        deadlines: Heap of (deadline, arrival, node).
        free_pages: Free KV pages, as last reported.
        evictable_pages: Evictable KV pages, as last reported.
    """

    def __init__(
        self,
        *,
        incomplete_roles: Collection[str] = (),
        max_threads: int = 16,
        config: SchedulerConfig | None = None,
        estimates: Estimates | None = None,
        kv_tokens: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        self.config = config if config is not None else SchedulerConfig()
        self.estimates = estimates if estimates is not None else Estimates()
        self.order = Order(policy(self.config.policy))
        self.fair_share = FairShare()
        self.sessions = Sessions()
        self.admission = AdmissionControl(
            kv_tokens or {}, self.config.gate_share, foresees=self.order.policy.foresees
        )
        self.incomplete_roles = frozenset(incomplete_roles)
        self.runs: dict[RunId, RunState] = {}
        self.declared_count = 0
        self.ended_count = 0
        self.requests: dict[RequestId, NodeState] = {}
        self.next_request = 0
        self.ready: dict[NodeState, None] = {}
        self.tool_slots = ToolSlots(max_threads)
        self.to_fill: dict[NodeState, None] = {}
        self.to_stop: dict[NodeState, str] = {}
        self.to_refuse: dict[NodeState, Refusal] = {}
        self.to_update: dict[NodeState, None] = {}
        self.deadlines: list[tuple[float, int, NodeState]] = []
        self.free_pages = 0
        self.evictable_pages = 0

    def next_deadline_s(self) -> float | None:
        """Instant of the next decision if no event comes before, or None."""
        timer_s = self.deadlines[0][0] if self.deadlines else None
        wake_s = self.admission.next_round_s if self.admission.held else None
        if wake_s is None or timer_s is None:
            return timer_s if wake_s is None else wake_s
        return min(timer_s, wake_s)

    def node(self, run_id: RunId, node_id: NodeId) -> NodeState | None:
        """A known node that has not ended, else None."""
        run = self.runs.get(run_id)
        node = run.nodes.get(node_id) if run is not None else None
        return None if node is None or node.status == "ended" else node

"""The process table: every run and node that the scheduler knows, changed by `apply` alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from agentrt.base.config import SchedulerConfig
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.scheduler.admission.controller import AdmissionControl
from agentrt.scheduler.decisions import Refusal
from agentrt.scheduler.estimates.estimates import Estimates
from agentrt.scheduler.order.order import Order
from agentrt.scheduler.order.tool_slots import ToolSlots
from agentrt.scheduler.policies.policy import policy
from agentrt.scheduler.runs.fair_share import FairShare
from agentrt.scheduler.runs.run import NodeState, RunState, Status

__all__ = ["NodeState", "RunState", "State", "Status"]


class State:
    """All runs of one runtime, and what has to be decided next.

    Args:
        incomplete_roles: Roles of engines that take prompts with holes.
        max_threaded: Most tools in worker threads at once.
        config: How runs share the engines.
        estimates: What past runs told; it goes on learning.
        kv_tokens: By role, what engines hold: on the device, and beside it on the host.

    Attributes:
        config: How runs share the engines.
        estimates: What past runs tell.
        order: In which waiting runs and requests are served.
        tenants: Who had how much.
        gate: Lets runs in by the KV memory that they will need.
        runs: By id.
        declared: Nodes ever declared.
        ended: Nodes ever ended.
        requests: Nodes by the request that their engine has.
        next_request: Number of the next request.
        ready: Could start now, those apart that need a worker thread.
        workers: Tools that need a worker thread.
        to_fill: Have a request, or wait, and an input of theirs has ended.
        to_stop: Are to end, with the reason.
        to_refuse: Are to end before they begin, with the reason.
        to_tell: Have a request whose facts have changed.
        timers: Heap of (deadline, order, node).
        free_pages: KV pages free, as last told.
        evictable_pages: KV pages that could be freed, as last told.
    """

    __slots__ = (
        "config",
        "declared",
        "ended",
        "estimates",
        "evictable_pages",
        "free_pages",
        "gate",
        "incomplete_roles",
        "next_request",
        "order",
        "ready",
        "requests",
        "runs",
        "tenants",
        "timers",
        "to_fill",
        "to_refuse",
        "to_stop",
        "to_tell",
        "workers",
    )

    def __init__(
        self,
        *,
        incomplete_roles: Collection[str] = (),
        max_threaded: int = 16,
        config: SchedulerConfig | None = None,
        estimates: Estimates | None = None,
        kv_tokens: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        self.config = config if config is not None else SchedulerConfig()
        self.estimates = estimates if estimates is not None else Estimates()
        self.order = Order(policy(self.config.policy))
        self.tenants = FairShare()
        self.gate = AdmissionControl(kv_tokens or {}, self.config.gate_share)
        self.incomplete_roles = frozenset(incomplete_roles)
        self.runs: dict[RunId, RunState] = {}
        self.declared = 0
        self.ended = 0
        self.requests: dict[RequestId, NodeState] = {}
        self.next_request = 0
        self.ready: dict[NodeState, None] = {}
        self.workers = ToolSlots(max_threaded)
        self.to_fill: dict[NodeState, None] = {}
        self.to_stop: dict[NodeState, str] = {}
        self.to_refuse: dict[NodeState, Refusal] = {}
        self.to_tell: dict[NodeState, None] = {}
        self.timers: list[tuple[float, int, NodeState]] = []
        self.free_pages = 0
        self.evictable_pages = 0

    def next_deadline_s(self) -> float | None:
        """When to look again although nothing has happened, or None."""
        timer_s = self.timers[0][0] if self.timers else None
        wake_s = self.gate.wake_s if self.gate.held else None
        if wake_s is None or timer_s is None:
            return timer_s if wake_s is None else wake_s
        return min(timer_s, wake_s)

    def node(self, run_id: RunId, node_id: NodeId) -> NodeState | None:
        """A node that is known and has not ended, else None."""
        run = self.runs.get(run_id)
        node = run.nodes.get(node_id) if run is not None else None
        return None if node is None or node.status == "ended" else node

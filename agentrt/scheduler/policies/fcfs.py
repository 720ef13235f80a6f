"""First come, first served: the policy of engines without programs."""

from __future__ import annotations

from agentrt.base.config import PolicyName as Name
from agentrt.protocol.backend import SchedulingInfo
from agentrt.scheduler.policies.policy import Policy
from agentrt.scheduler.policies.priority_key import KeyTerms, PriorityKey


class Fcfs(Policy):
    """The earliest run first; within a run, the earliest request."""

    name: Name = "fcfs"
    time_invariant: bool = True

    def key(
        self, now_s: float, info: SchedulingInfo, uncached_tokens: int, cached_tokens: int = 0
    ) -> PriorityKey:
        """Start of the run, then the number of the request."""
        return (info.run_started_at_s, info.request_id)

    def terms(
        self, now_s: float, info: SchedulingInfo, uncached_tokens: int, cached_tokens: int = 0
    ) -> KeyTerms:
        """Start of the run."""
        return (("run_started_at_s", info.run_started_at_s),)

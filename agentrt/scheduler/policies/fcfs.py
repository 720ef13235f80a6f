"""First come, first served: the policy of engines without programs."""

from __future__ import annotations

from agentrt.base.config import PolicyName as Name
from agentrt.protocol.backend import SchedulingInfo
from agentrt.scheduler.policies.priority_key import REFRESH_STEPS, KeyTerms, PriorityKey


class Fcfs:
    """The earliest run first; within a run, the earliest request."""

    name: Name = "fcfs"
    max_waiting: int | None = None
    refresh_steps: int = REFRESH_STEPS
    time_invariant: bool = True
    groups_forks: bool = False
    long_steps: bool = True
    prompts_yield: bool = False
    foresees: bool = False
    borrows: bool = False

    def key(
        self, now_s: float, info: SchedulingInfo, uncached_tokens: int, cached_tokens: int = 0
    ) -> PriorityKey:
        """Start of the run, then the number of the request."""
        return (info.run_started_at_s, info.request_id)

    def level(self, now_s: float, info: SchedulingInfo) -> int | None:
        """None: it has no levels."""
        return None

    def terms(
        self, now_s: float, info: SchedulingInfo, uncached_tokens: int, cached_tokens: int = 0
    ) -> KeyTerms:
        """Start of the run."""
        return (("run_started_at_s", info.run_started_at_s),)

"""What could be reached at best: the order of `rwa` by what a replay knows its runs will need."""

from __future__ import annotations

from agentrt.base.config import PolicyName as Name
from agentrt.base.errors import UsageError
from agentrt.protocol.backend import SchedulingInfo
from agentrt.scheduler.policies.rwa import Rwa


class Oracle(Rwa):
    """As `Rwa`, without having to learn."""

    name: Name = "oracle"

    def rest_s(self, info: SchedulingInfo) -> float:
        """Service that the run still needs.

        Raises:
            UsageError: Nobody knows it: this is no replay.
        """
        if info.true_rest_s is None:
            raise UsageError(
                f"request {info.request_id} of run {info.run_id or '?'} does not tell what its "
                "run will need, which the policy 'oracle' goes by",
                hint="Only replays know that: use the policy 'rwa', which learns it",
            )
        return info.true_rest_s

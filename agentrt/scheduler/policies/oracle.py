"""Upper bound for `rwa`: the same order, with the true remaining service known from a replay."""

from __future__ import annotations

from agentrt.base.config import PolicyName as Name
from agentrt.base.errors import UsageError
from agentrt.protocol.backend import SchedulingInfo
from agentrt.scheduler.policies.rwa import Rwa


class Oracle(Rwa):
    """Like `Rwa`, without having to learn."""

    name: Name = "oracle"

    def rest_s(self, info: SchedulingInfo) -> float:
        """True remaining service of the run.

        Raises:
            UsageError: The service is unknown: this is no replay.
        """
        if info.true_rest_s is None:
            raise UsageError(
                f"request {info.request_id} of run {info.run_id or '?'} does not tell what its "
                "run will need, which the policy 'oracle' goes by",
                hint="Only replays know that: use the policy 'rwa', which learns it",
            )
        return info.true_rest_s

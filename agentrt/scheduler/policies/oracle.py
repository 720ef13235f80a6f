"""The order of `rwa` with the true remaining service, known from a replay: what learning it costs.

It is no bound: the order still ages, and admission control still estimates. See `clairvoyant`.
"""

from __future__ import annotations

from agentrt.base.config import PolicyName as Name
from agentrt.protocol.backend import SchedulingInfo
from agentrt.scheduler.policies.foresight import true_rest_s
from agentrt.scheduler.policies.rwa import Rwa


class Oracle(Rwa):
    """Like `Rwa`, without having to learn."""

    name: Name = "oracle"

    def rest_s(self, info: SchedulingInfo) -> float:
        """True remaining service of the run.

        Raises:
            UsageError: The service is unknown: this is no replay.
        """
        return true_rest_s(info, self.name)

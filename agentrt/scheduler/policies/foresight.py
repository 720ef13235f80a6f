"""Remaining service of a run, as only a replay knows it."""

from __future__ import annotations

from agentrt.base.config import PolicyName
from agentrt.base.errors import UsageError
from agentrt.protocol.backend import SchedulingInfo


def true_rest_s(info: SchedulingInfo, policy: PolicyName) -> float:
    """True remaining service of a run, in seconds.

    Args:
        info: Scheduling info of one of its requests.
        policy: The policy that goes by it, for the error.

    Raises:
        UsageError: The service is unknown: this is no replay.
    """
    if info.true_rest_s is None:
        raise UsageError(
            f"request {info.request_id} of run {info.run_id or '?'} does not tell what its "
            f"run will need, which the policy {policy!r} goes by",
            hint="Only replays know that: use the policy 'rwa', which learns it",
        )
    return info.true_rest_s

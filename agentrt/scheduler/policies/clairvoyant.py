"""Shortest remaining service first, by what a replay knows: a bound for policies that learn.

Nothing ages, and nothing is rounded. Admission control knows the true KV need of each run, and an
admitted run gives way between two of its generations. So it is unfair, and it starves long runs.
"""

from __future__ import annotations

from agentrt.base.config import PolicyName as Name
from agentrt.protocol.backend import SchedulingInfo
from agentrt.scheduler.policies.foresight import true_rest_s
from agentrt.scheduler.policies.policy import Policy
from agentrt.scheduler.policies.priority_key import KeyTerms, PriorityKey


class Clairvoyant(Policy):
    """The run with the least true remaining service first; within a run the longest path.

    Args:
        token_s: Time of computing one prompt token.
    """

    name: Name = "clairvoyant"
    groups_forks: bool = True
    long_steps: bool = False
    prompts_yield: bool = True
    foresees: bool = True

    def __init__(self, token_s: float = 0.0) -> None:
        self._token_s = token_s

    def key(
        self, now_s: float, info: SchedulingInfo, uncached_tokens: int, cached_tokens: int = 0
    ) -> PriorityKey:
        """True rest with the uncached prompt, start of the run, then the rank, highest first.

        Raises:
            UsageError: The service is unknown: this is no replay.
        """
        return (self._size_s(info, uncached_tokens), info.run_started_at_s, -info.rank_s)

    def terms(
        self, now_s: float, info: SchedulingInfo, uncached_tokens: int, cached_tokens: int = 0
    ) -> KeyTerms:
        """Rest, prefill, and the rank."""
        return (
            ("true_rest_s", true_rest_s(info, self.name)),
            ("uncached_s", uncached_tokens * self._token_s),
            ("rank_s", info.rank_s),
        )

    def _size_s(self, info: SchedulingInfo, uncached_tokens: int) -> float:
        return true_rest_s(info, self.name) + uncached_tokens * self._token_s

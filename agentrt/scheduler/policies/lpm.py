"""Longest prefix match: the policy of engines with a prefix cache and without programs.

The order of SGLang's radix cache (https://arxiv.org/abs/2312.07104): it raises the share of cached
tokens, splits programs, and makes prompts without a shared prefix wait; hence its limit, beyond
which arrival decides.
"""

from __future__ import annotations

from agentrt.base.config import PolicyName as Name
from agentrt.protocol.backend import SchedulingInfo
from agentrt.scheduler.policies.policy import Policy
from agentrt.scheduler.policies.priority_key import KeyTerms, PriorityKey


class Lpm(Policy):
    """The request with the most cached prompt tokens first."""

    name: Name = "lpm"
    max_waiting: int | None = 128
    refresh_steps: int = 1
    time_invariant: bool = True

    def key(
        self, now_s: float, info: SchedulingInfo, uncached_tokens: int, cached_tokens: int = 0
    ) -> PriorityKey:
        """Cached tokens, most first."""
        return (-cached_tokens,)

    def terms(
        self, now_s: float, info: SchedulingInfo, uncached_tokens: int, cached_tokens: int = 0
    ) -> KeyTerms:
        """Cached tokens."""
        return (("cached_tokens", float(cached_tokens)),)

"""Longest prefix match: what engines do that know their cache, and no programs.

The order of SGLang's radix cache (https://arxiv.org/abs/2312.07104): it raises the share of tokens
that are found in the cache, splits programs, and lets prompts that share nothing wait; hence its
bound, beyond which arrival counts.
"""

from __future__ import annotations

from agentrt.base.config import PolicyName as Name
from agentrt.protocol.backend import SchedulingInfo
from agentrt.scheduler.policies.priority_key import KeyTerms, PriorityKey


class Lpm:
    """The request whose prompt the cache knows most tokens of."""

    name: Name = "lpm"
    max_waiting: int | None = 128
    refresh_steps: int = 1
    time_invariant: bool = True
    groups_forks: bool = False

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

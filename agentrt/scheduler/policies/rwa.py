"""Remaining work with ageing: the run that needs the least more, unless others waited too long."""

from __future__ import annotations

from agentrt.base.config import PolicyName as Name
from agentrt.protocol.backend import SchedulingInfo
from agentrt.scheduler.policies.policy import Policy
from agentrt.scheduler.policies.priority_key import (
    KeyTerms,
    PriorityKey,
    aged_s,
    level_of,
    waited_s,
)


class Rwa(Policy):
    """The run with the least aged remaining service first; within a run the longest path.

    Remaining service is learned; the uncached tokens of the prompt are added. For a run without
    estimates the service it has attained stands in for the service it will need, which is the best
    guess without knowledge.

    Args:
        token_s: Time of computing one prompt token.
    """

    name: Name = "rwa"
    groups_forks: bool = True
    long_steps: bool = False
    borrows: bool = True

    def __init__(self, token_s: float = 0.0) -> None:
        self._token_s = token_s

    def rest_s(self, info: SchedulingInfo) -> float:
        """Expected remaining service of the run."""
        return info.rest_s or info.attained_s

    def key(
        self, now_s: float, info: SchedulingInfo, uncached_tokens: int, cached_tokens: int = 0
    ) -> PriorityKey:
        """Power of two of the aged rest, start of the run, then the rank, highest first."""
        level = level_of(self._aged_s(now_s, info, uncached_tokens))
        return (level, info.run_started_at_s, -info.rank_s)

    def level(self, now_s: float, info: SchedulingInfo) -> int | None:
        """The power of two of the aged rest."""
        return level_of(self._aged_s(now_s, info, 0))

    def terms(
        self, now_s: float, info: SchedulingInfo, uncached_tokens: int, cached_tokens: int = 0
    ) -> KeyTerms:
        """Rest, service, waiting, prefill, the aged sum, its power of two, the rank."""
        aged = self._aged_s(now_s, info, uncached_tokens)
        return (
            ("rest_s", self.rest_s(info)),
            ("attained_s", info.attained_s),
            ("waited_s", waited_s(now_s, info)),
            ("uncached_s", uncached_tokens * self._token_s),
            ("aged_s", aged),
            ("level", float(level_of(aged))),
            ("rank_s", info.rank_s),
        )

    def _aged_s(self, now_s: float, info: SchedulingInfo, uncached_tokens: int) -> float:
        size_s = self.rest_s(info) + uncached_tokens * self._token_s
        return aged_s(size_s, info.attained_s + size_s, waited_s(now_s, info))

"""Program-level attained service: the least served program first, in queues.

It needs no knowledge of the future. After Autellix (https://arxiv.org/abs/2502.13965): a request
enters the queue of the service that its program has attained, and within a queue arrival decides.
One thing differs. There a program that waited longer than a multiple of its service is promoted to
the first queue at once; when all are late all are promoted, and the order collapses. Here its
service is discounted smoothly the longer it waits, as in `rwa`.
"""

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

_FIRST_LEVEL = level_of(0.1)
"""Programs with up to a tenth of a second of service share the first queue."""

_QUEUES = 12
"""Each queue spans twice the service of the one before; the last is unbounded."""


class Plas(Policy):
    """The run with the least attained service first."""

    name: Name = "plas"

    def key(
        self, now_s: float, info: SchedulingInfo, uncached_tokens: int, cached_tokens: int = 0
    ) -> PriorityKey:
        """Queue of the aged service, 0 first."""
        level = level_of(_aged_s(now_s, info)) - _FIRST_LEVEL
        return (float(min(max(0, level), _QUEUES - 1)),)

    def level(self, now_s: float, info: SchedulingInfo) -> int | None:
        """The queue."""
        return int(self.key(now_s, info, 0)[0])

    def terms(
        self, now_s: float, info: SchedulingInfo, uncached_tokens: int, cached_tokens: int = 0
    ) -> KeyTerms:
        """Service, waiting, the aged service, and the queue."""
        return (
            ("attained_s", info.attained_s),
            ("waited_s", waited_s(now_s, info)),
            ("aged_s", _aged_s(now_s, info)),
            ("queue", self.key(now_s, info, uncached_tokens)[0]),
        )


def _aged_s(now_s: float, info: SchedulingInfo) -> float:
    return aged_s(info.attained_s, info.attained_s, waited_s(now_s, info))

"""Policies: in which order waiting requests are served.

A policy is pure: it is given the instant and the info, and keeps nothing. Engines, the loop and
the simulator ask the same code. What holds whatever the policy (tenants, the user's priority,
deadlines, the express lane) is in `order`.
"""

from __future__ import annotations

from typing import Protocol

from agentrt.base.config import PolicyName as Name
from agentrt.protocol.backend import SchedulingInfo
from agentrt.scheduler.policies.fcfs import Fcfs
from agentrt.scheduler.policies.lpm import Lpm
from agentrt.scheduler.policies.oracle import Oracle
from agentrt.scheduler.policies.plas import Plas
from agentrt.scheduler.policies.priority_key import KeyTerms, PriorityKey
from agentrt.scheduler.policies.rwa import Rwa

__all__ = ["KeyTerms", "Policy", "PriorityKey", "policy"]


class Policy(Protocol):
    """Says which of the requests that wait goes first.

    Attributes:
        name: As it is chosen by.
        most_waiting: With more requests waiting, arrival decides instead; None for any number.
        fresh_steps: Engine steps for which a key may be kept while the info is the same.
        timeless: A key depends on the info and the cached tokens alone, not on the instant.
        together: Whether requests of one run that share a prefix are let in together.
    """

    name: Name
    max_waiting: int | None
    refresh_steps: int
    time_invariant: bool
    groups_forks: bool

    def key(
        self, now_s: float, info: SchedulingInfo, uncached_tokens: int, cached_tokens: int = 0
    ) -> PriorityKey:
        """Sort key of a waiting request; the smallest goes first.

        Args:
            now_s: When the order is asked for.
            info: Scheduling info of the request and its run.
            uncached_tokens: Tokens of its prompt to compute; 0 where nobody knows.
            cached_tokens: Tokens of its prompt that are computed.

        Raises:
            UsageError: The info lacks what the policy cannot do without.
        """
        ...

    def terms(
        self, now_s: float, info: SchedulingInfo, uncached_tokens: int, cached_tokens: int = 0
    ) -> KeyTerms:
        """What the key of the same arguments was worked out from, to be told to people."""
        ...


def policy(name: Name, token_s: float = 0.0) -> Policy:
    """The policy of a name.

    Args:
        name: Which.
        token_s: What computing one token of a prompt takes, where that is known: policies that
            weigh work count what the cache does not know.
    """
    match name:
        case "fcfs":
            return Fcfs()
        case "lpm":
            return Lpm()
        case "plas":
            return Plas()
        case "rwa":
            return Rwa(token_s)
        case "oracle":
            return Oracle(token_s)

"""Policies: the order of waiting requests.

A policy is a pure function of the instant and the scheduling info. Engines, the event loop and the
simulator use the same code. The rules that hold for every policy (tenants, priorities, deadlines,
overdue requests) are in `order`.
"""

from __future__ import annotations

from typing import Protocol

from agentrt.base.config import PolicyName as Name
from agentrt.protocol.backend import SchedulingInfo
from agentrt.scheduler.policies.clairvoyant import Clairvoyant
from agentrt.scheduler.policies.fcfs import Fcfs
from agentrt.scheduler.policies.lpm import Lpm
from agentrt.scheduler.policies.oracle import Oracle
from agentrt.scheduler.policies.plas import Plas
from agentrt.scheduler.policies.priority_key import KeyTerms, PriorityKey
from agentrt.scheduler.policies.rwa import Rwa

__all__ = ["KeyTerms", "Policy", "PriorityKey", "policy"]


class Policy(Protocol):
    """Decides which waiting request goes first.

    Attributes:
        name: Name in the config.
        max_waiting: With more waiting requests arrival decides instead; None for no limit.
        refresh_steps: Engine steps for which a key may be cached while the info is the same.
        time_invariant: Whether a key depends on the info and the cached tokens only.
        groups_forks: Whether requests of one run with a common prefix are admitted together.
        long_steps: Whether prompts may fill a step. Otherwise they take at most a multiple of its
            fixed time, since every decode in it waits for them.
        prompts_yield: Whether a prompt waits for more urgent decodes that end soon.
        foresees: Whether admission control goes by what a replay knows, and takes admissions back
            for shorter runs.
        borrows: Whether a run is admitted to memory that longer runs need after its end.
    """

    name: Name
    max_waiting: int | None
    refresh_steps: int
    time_invariant: bool
    groups_forks: bool
    long_steps: bool
    prompts_yield: bool
    foresees: bool
    borrows: bool

    def key(
        self, now_s: float, info: SchedulingInfo, uncached_tokens: int, cached_tokens: int = 0
    ) -> PriorityKey:
        """Sort key of a waiting request; the smallest goes first.

        Args:
            now_s: Now.
            info: Scheduling info of the request and its run.
            uncached_tokens: Prompt tokens to compute; 0 if unknown.
            cached_tokens: Prompt tokens that are cached.

        Raises:
            UsageError: The info lacks something that the policy needs.
        """
        ...

    def level(self, now_s: float, info: SchedulingInfo) -> int | None:
        """Coarse urgency for servers that take a priority, 0 first; None if it has no levels."""
        ...

    def terms(
        self, now_s: float, info: SchedulingInfo, uncached_tokens: int, cached_tokens: int = 0
    ) -> KeyTerms:
        """Terms of the key for the same arguments, for display."""
        ...


def policy(name: Name, token_s: float = 0.0) -> Policy:
    """The policy of this name.

    Args:
        name: Name of the policy.
        token_s: Time of computing a prompt token, if known; policies that weigh work count the
            uncached tokens.
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
        case "clairvoyant":
            return Clairvoyant(token_s)

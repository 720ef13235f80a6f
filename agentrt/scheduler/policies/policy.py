"""Interface of policies: the order of waiting requests, and what else follows from it.

A policy is a pure function of the instant and the scheduling info. Engines, the event loop and the
simulator use the same code. The rules that hold for every policy (tenants, priorities, deadlines,
overdue requests) are in `order`.
"""

from __future__ import annotations

from typing import Protocol

from agentrt.base.config import PolicyName as Name
from agentrt.protocol.backend import SchedulingInfo
from agentrt.scheduler.policies.priority_key import REFRESH_STEPS, KeyTerms, PriorityKey


class Policy(Protocol):
    """Decides which waiting request goes first; a policy states where it departs from the defaults.

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
    max_waiting: int | None = None
    refresh_steps: int = REFRESH_STEPS
    time_invariant: bool = False
    groups_forks: bool = False
    long_steps: bool = True
    prompts_yield: bool = False
    foresees: bool = False
    borrows: bool = False

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
        return None

    def terms(
        self, now_s: float, info: SchedulingInfo, uncached_tokens: int, cached_tokens: int = 0
    ) -> KeyTerms:
        """Terms of the key for the same arguments, for display."""
        ...

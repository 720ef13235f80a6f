"""Registry of policies: each by its name in the config."""

from __future__ import annotations

from agentrt.base.config import PolicyName as Name
from agentrt.scheduler.policies.fcfs import Fcfs
from agentrt.scheduler.policies.lpm import Lpm
from agentrt.scheduler.policies.plas import Plas
from agentrt.scheduler.policies.policy import Policy
from agentrt.scheduler.policies.rwa import Rwa


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
            from agentrt.scheduler.policies.oracle import Oracle  # of replays

            return Oracle(token_s)
        case "clairvoyant":
            from agentrt.scheduler.policies.clairvoyant import Clairvoyant  # likewise

            return Clairvoyant(token_s)

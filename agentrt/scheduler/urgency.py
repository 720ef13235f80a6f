"""In which order the loop starts what could start: the places that only it gives out."""

from __future__ import annotations

from math import floor

from agentrt.scheduler.node import NodeState
from agentrt.scheduler.order import QUANTUM_S

Urgency = tuple[bool, int, int, float, float, int]


def urgency(node: NodeState) -> Urgency:
    """Smallest first: demanded, its tenant, its run's priority and start, longest path, arrival.

    The rank orders the nodes of one run only: across runs it would put the longest job first. In
    which order engines serve what they were sent is theirs to say, by the policy.
    """
    run = node.run
    return (
        not node.demanded,
        floor(run.account.debt_s / QUANTUM_S),
        -run.priority,
        run.started_at_s,
        -node.rank_s,
        node.order,
    )

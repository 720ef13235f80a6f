"""In which order the loop starts what could start: the places that only it gives out."""

from __future__ import annotations

from collections.abc import Iterable
from math import floor
from operator import attrgetter

from agentrt.scheduler.order.order import QUANTUM_S
from agentrt.scheduler.runs.run import NodeState, RunState

Urgency = tuple[bool, int, int, float, float, int]

_Standing = tuple[int, int, float]
"""What a run says of the places of its nodes."""

_Group = tuple[list[NodeState], list[NodeState]]
"""Nodes of runs that stand alike: what nobody waits for, and what somebody does."""

_arrival = attrgetter("order")
_rank = attrgetter("rank_s")


def dispatch_key(node: NodeState) -> Urgency:
    """Smallest first: demanded, its tenant, its run's priority and start, longest path, arrival.

    The rank orders the nodes of one run only: across runs it would put the longest job first. In
    which order engines serve what they were sent is theirs to say, by the policy.
    """
    return (not node.demanded, *_of_run(node.run), -node.rank_s, node.order)


def in_dispatch_order(nodes: Iterable[NodeState]) -> list[NodeState]:
    """Nodes sorted by `dispatch_key`; grouped by run, which is faster than a key for each node."""
    line = sorted(nodes, key=_arrival)
    if len(line) < 2:
        return line
    line.sort(key=_rank, reverse=True)  # of equals the first to come stays first
    groups: dict[_Standing, _Group] = {}
    of_runs: dict[RunState, _Group] = {}
    for node in line:
        group = of_runs.get(node.run)
        if group is None:
            group = groups.setdefault(_of_run(node.run), ([], []))
            of_runs[node.run] = group
        group[node.demanded].append(node)
    ordered = [groups[place] for place in sorted(groups)]
    return [node for wanted in (True, False) for group in ordered for node in group[wanted]]


def _of_run(run: RunState) -> _Standing:
    return (floor(run.account.debt_s / QUANTUM_S), -run.priority, run.started_at_s)

"""Dispatch order: which ready nodes the event loop starts first."""

from __future__ import annotations

from collections.abc import Iterable
from math import floor
from operator import attrgetter

from agentrt.scheduler.order.order import QUANTUM_S
from agentrt.scheduler.runs.run import NodeState, RunState

DispatchKey = tuple[bool, int, int, float, float, int]

_RunKey = tuple[int, int, float]
"""Part of the key that a run gives all its nodes."""

_DemandGroups = tuple[list[NodeState], list[NodeState]]
"""Nodes of runs with equal keys: undemanded ones, and demanded ones."""

_arrival = attrgetter("arrival")
_rank = attrgetter("rank_s")


def dispatch_key(node: NodeState) -> DispatchKey:
    """Sort key, smallest first: demanded, tenant, priority, start, longest path, arrival.

    The rank orders the nodes of one run only: across runs it would put the longest job first. The
    order in which engines serve their requests is the policy's.
    """
    return (not node.demanded, *_run_key(node.run), -node.rank_s, node.arrival)


def in_dispatch_order(nodes: Iterable[NodeState]) -> list[NodeState]:
    """Nodes sorted by `dispatch_key`; grouped by run, which is faster than a key per node."""
    arrivals = sorted(nodes, key=_arrival)
    if len(arrivals) < 2:
        return arrivals
    arrivals.sort(key=_rank, reverse=True)  # ties keep the order of arrival
    groups: dict[_RunKey, _DemandGroups] = {}
    of_runs: dict[RunState, _DemandGroups] = {}
    for node in arrivals:
        group = of_runs.get(node.run)
        if group is None:
            group = groups.setdefault(_run_key(node.run), ([], []))
            of_runs[node.run] = group
        group[node.demanded].append(node)
    ordered = [groups[key] for key in sorted(groups)]
    return [node for wanted in (True, False) for group in ordered for node in group[wanted]]


def _run_key(run: RunState) -> _RunKey:
    return (floor(run.account.debt_s / QUANTUM_S), -run.priority, run.session_started_at_s)

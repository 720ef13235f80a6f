"""Upward rank: how long it takes from the start of a node to the end of its run, at the longest.

On the part of the graph that is known it is the node's own expected time and the largest rank of
what needs it; where nothing known needs it, past runs say what came after such a place. Inside a
run the highest rank goes first. A change is passed on to what a node needs only where it is more
than a tenth, so that a graph that grows node by node is not worked out anew each time.
"""

from __future__ import annotations

from agentrt.scheduler.node import NodeState

CHANGE = 0.1


def own_s(node: NodeState) -> float:
    """How long a node works, as far as is known."""
    return node.place.p50("tool_s" if node.kind == "tool" else "busy_s")


def raise_rank(node: NodeState, changed: dict[NodeState, None], change: float = CHANGE) -> None:
    """Something needs `node` now, or needs it no more: work out its rank, and of what it needs.

    Args:
        node: A node that has not ended.
        changed: Nodes whose rank is another one now are added to it.
        change: Part of a rank by which it must have changed to count.
    """
    todo = [node]
    while todo:
        here = todo.pop()
        needed_by = [other.rank_s for other in here.dependents]
        rank_s = own_s(here) + max(needed_by) if needed_by else _learned_s(here)
        if abs(rank_s - here.rank_s) <= change * here.rank_s:
            continue
        here.rank_s = rank_s
        changed[here] = None
        todo.extend(source for source in here.inputs if source.status != "ended")


def _learned_s(node: NodeState) -> float:
    return node.place.known_at(node.depth).p50("path_s")

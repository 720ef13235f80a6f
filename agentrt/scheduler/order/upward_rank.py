"""Upward rank: how long it takes from the start of a node to the end of its run, at the longest.

On the part of the graph that is known it is the node's own expected time and the largest rank of
what needs it; where nothing known needs it, past runs say what came after such a place. Inside a
run the highest rank goes first.

A change is passed on to what a node needs where it is more than a tenth of its rank, so that a
graph that grows node by node is not worked out anew each time. Small changes that add up are caught
up with once the graph has grown by a tenth: all in all that visits a node about ten times.
"""

from __future__ import annotations

from agentrt.scheduler.runs.run import NodeState, RunState

CHANGE = 0.1
LEAST_GROWTH = 8


def own_s(node: NodeState) -> float:
    """How long a node works, as far as is known."""
    return node.place.p50("tool_s" if node.kind == "tool" else "busy_s")


def raise_rank(node: NodeState, changed: dict[NodeState, None]) -> None:
    """Something needs `node` now, or needs it no more: work out its rank, and of what it needs.

    Args:
        node: A node that has not ended.
        changed: Nodes whose rank is another one now are added to it.
    """
    todo = [node]
    while todo:
        here = todo.pop()
        before_s = here.rank_s
        if _update(here, changed) and abs(here.rank_s - before_s) > CHANGE * before_s:
            todo.extend(source for source in here.inputs if source.status != "ended")


def catch_up(run: RunState, changed: dict[NodeState, None]) -> None:
    """Work all ranks out anew, where the graph has grown enough since that was done."""
    if len(run.nodes) < run.rank_anew_at:
        return
    run.rank_anew_at = len(run.nodes) + max(LEAST_GROWTH, int(CHANGE * len(run.nodes)))
    for node in reversed(run.nodes.values()):  # what needs a node was declared after it
        if node.dependents and node.status != "ended":
            _update(node, changed)


def _update(node: NodeState, changed: dict[NodeState, None]) -> bool:
    needed_by = [other.rank_s for other in node.dependents]
    rank_s = own_s(node) + max(needed_by) if needed_by else _learned_s(node)
    if rank_s == node.rank_s:
        return False
    node.rank_s = rank_s
    changed[node] = None
    return True


def _learned_s(node: NodeState) -> float:
    return node.place.known_at(node.depth).p50("path_s")

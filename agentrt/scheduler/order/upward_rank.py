"""Upward rank: expected time from the start of a node to the end of its run, on the longest path.

On the known part of the graph it is the node's own expected time plus the largest rank of a node
that needs it. If no known node needs it, past runs tell what came after such a site. Within a run
the highest rank goes first.

A change is propagated to a node's inputs only if it exceeds a tenth of the rank, so that a graph
that grows node by node is not recomputed each time. Small changes that add up are picked up once
the graph has grown by a tenth. In all, a node is visited about ten times.
"""

from __future__ import annotations

from agentrt.scheduler.runs.run import NodeState, RunState

MIN_CHANGE = 0.1
MIN_GROWTH = 8


def duration_s(node: NodeState) -> float:
    """Expected duration of a node, as far as it is known."""
    return node.estimates.p50("tool_s" if node.kind == "tool" else "busy_s")


def propagate_rank(node: NodeState, changed: dict[NodeState, None]) -> None:
    """Recompute the rank of `node` after a change of its dependents, and of its inputs.

    Args:
        node: A node that has not ended.
        changed: Nodes with a changed rank are added to it.
    """
    todo = [node]
    while todo:
        here = todo.pop()
        before_s = here.rank_s
        if _update(here, changed) and abs(here.rank_s - before_s) > MIN_CHANGE * before_s:
            todo.extend(source for source in here.inputs if source.status != "ended")


def recompute_ranks(run: RunState, changed: dict[NodeState, None]) -> None:
    """Recompute all ranks, if the graph has grown enough since the last time."""
    if len(run.nodes) < run.rerank_at_nodes:
        return
    run.rerank_at_nodes = len(run.nodes) + max(MIN_GROWTH, int(MIN_CHANGE * len(run.nodes)))
    for node in reversed(run.nodes.values()):  # dependents are declared after a node
        if node.dependents and node.status != "ended":
            _update(node, changed)


def _update(node: NodeState, changed: dict[NodeState, None]) -> bool:
    needed_by = [other.rank_s for other in node.dependents]
    rank_s = duration_s(node) + max(needed_by) if needed_by else _remaining_s(node)
    if rank_s == node.rank_s:
        return False
    node.rank_s = rank_s
    changed[node] = None
    return True


def _remaining_s(node: NodeState) -> float:
    outlook = node.estimates.known_at_depth(node.depth).outlook()
    return 0.0 if outlook is None else outlook.path_p50_s

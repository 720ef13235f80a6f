"""Deadlines of nodes that have passed.

Generations, tools and questions end here: `decide` lets them expire. Programs end by the cancel
scope of their task (`runtime.tasks.runner`), and `limits` blocks by theirs (`program.limits`). An
output with `on_limit="close"` is closed by the engine a little before (`EngineCore`).
"""

from __future__ import annotations

from collections.abc import Sequence

from agentrt.scheduler.runs.run import NodeState


def expired_nodes(
    deadlines: Sequence[tuple[float, int, NodeState]], now_s: float
) -> list[NodeState]:
    """Nodes with a passed deadline, by walking down the heap while there are any.

    Args:
        deadlines: Heap of deadline, order of declaration and node.
        now_s: Instant of the decision.
    """
    late: list[tuple[float, int, NodeState]] = []
    todo = [0]
    while todo:
        at = todo.pop()
        if at < len(deadlines) and deadlines[at][0] <= now_s:
            late.append(deadlines[at])
            todo += (2 * at + 1, 2 * at + 2)
    return [node for _, _, node in sorted(late) if node.status != "ended" and not node.is_stopping]

"""Demand: which nodes the code of a run awaits, propagated backwards along data edges.

A node is demanded when code that is itself demanded awaits it, or when a demanded node needs its
value. The code of a program is demanded when the program's node is; a run's root always is.
"""

from __future__ import annotations

from agentrt.scheduler.runs.run import NodeState
from agentrt.scheduler.state import State


def end_input(state: State, source: NodeState) -> None:
    """Note that a node that needed `source` has ended."""
    if source.status != "ended" and source.demanded:
        update_demand(state, source)


def update_demand(state: State, node: NodeState) -> None:
    """Update whether the node is demanded, and propagate a change to its inputs."""
    todo = [node]
    while todo:
        here = todo.pop()
        demanded = _is_demanded(here)
        if demanded == here.demanded or here.status == "ended":
            continue
        here.demanded = demanded
        if here.request_id is not None:
            state.to_update[here] = None
        elif here.needs_thread and here in state.tool_slots.waiting:
            state.tool_slots.enqueue_tool(here)
        if here.inputs:
            todo += [source for source in here.inputs if source.status != "ended"]
        if here.children:
            todo += [child for child in here.children if child.awaited]


def _is_demanded(node: NodeState) -> bool:
    if node.awaited and (node.parent is None or node.parent.demanded):
        return True
    return any(other.demanded and other.status != "ended" for other in node.dependents)

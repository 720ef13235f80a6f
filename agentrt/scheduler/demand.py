"""Demand: what somebody waits for, walked back over the data edges.

A node is demanded when code that is itself demanded awaits it, or when a demanded node needs its
value. The code of a program is demanded when the program's node is; a run's root always is.
"""

from __future__ import annotations

from agentrt.scheduler.runs.run import NodeState
from agentrt.scheduler.state import State


def demanded(state: State, node: NodeState) -> None:
    """Code waits for the node."""
    node.awaited = True
    refresh(state, node)


def demand_ended(state: State, node: NodeState) -> None:
    """Code waits for the node no more."""
    node.awaited = False
    refresh(state, node)


def input_ended(state: State, source: NodeState) -> None:
    """A node that needed `source` has ended."""
    if source.status != "ended" and source.demanded:
        refresh(state, source)


def refresh(state: State, node: NodeState) -> None:
    """Work out again whether the node is demanded, and pass a change on to what it needs."""
    todo = [node]
    while todo:
        here = todo.pop()
        wanted = _is_demanded(here)
        if wanted == here.demanded or here.status == "ended":
            continue
        here.demanded = wanted
        if here.request_id is not None:
            state.to_tell[here] = None
        elif here.threaded and here in state.workers.waiting:
            state.workers.add(here)
        if here.inputs:
            todo += [source for source in here.inputs if source.status != "ended"]
        if here.children:
            todo += [child for child in here.children if child.awaited]


def _is_demanded(node: NodeState) -> bool:
    if node.awaited and (node.parent is None or node.parent.demanded):
        return True
    return any(other.demanded and other.status != "ended" for other in node.dependents)

"""From state to decisions: a pure function, called once a batch of facts.

What it looks at is what has changed: each table of `State` holds only nodes that something is to
be decided about, and what has to wait (for a thread, for the admission gate) stands elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import cast

from agentrt.base.ids import RequestId
from agentrt.scheduler.decisions import (
    Decision,
    Expire,
    Fill,
    Refuse,
    Send,
    Start,
    StopNode,
    UpdateInfo,
)
from agentrt.scheduler.order.dispatch_order import in_dispatch_order
from agentrt.scheduler.order.request_info import InfoUpdates
from agentrt.scheduler.runs.run import NodeState
from agentrt.scheduler.state import State


def decide(state: State, now_s: float) -> tuple[Decision, ...]:
    """What to do now; empty when nothing has changed.

    Endings come first, so that nothing is started for what is about to end, then prompts that can
    grow, then new work, the most urgent first, then who is let in.
    """
    decisions: list[Decision] = []
    ending: set[NodeState] = set()
    if state.to_stop or state.to_refuse:
        ending.update(state.to_stop)
        for node, reason in state.to_stop.items():
            decisions.append(StopNode(node.run.run_id, node.node_id, reason))
        for node, refusal in state.to_refuse.items():
            if node not in ending:
                ending.add(node)
                decisions.append(Refuse(node.run.run_id, node.node_id, refusal))
    if state.timers and state.timers[0][0] <= now_s:
        for node in _expired(state, now_s):
            if node not in ending:
                ending.add(node)
                decisions.append(Expire(node.run.run_id, node.node_id))
    if state.to_fill:
        decisions.extend(
            Fill(node.run.run_id, node.node_id) for node in state.to_fill if node not in ending
        )
    if state.ready or state.workers.waiting:
        _start(state, now_s, ending, decisions)
    if state.to_tell:
        _tell(state, now_s, decisions)
    if state.gate.held and state.gate.is_due(now_s):
        decisions.append(state.gate.look(now_s, state.order))
    return tuple(decisions)


def _expired(state: State, now_s: float) -> list[NodeState]:
    """Nodes whose deadline has passed, walking down the heap as far as there are any."""
    timers = state.timers
    late: list[tuple[float, int, NodeState]] = []
    todo = [0]
    while todo:
        at = todo.pop()
        if at < len(timers) and timers[at][0] <= now_s:
            late.append(timers[at])
            todo += (2 * at + 1, 2 * at + 2)
    return [node for _, _, node in sorted(late) if node.status != "ended" and not node.stopping]


def _start(state: State, now_s: float, ending: set[NodeState], decisions: list[Decision]) -> None:
    numbers: Iterator[RequestId] = cast("Iterator[RequestId]", count(state.next_request))
    telling = InfoUpdates(now_s)
    starting = in_dispatch_order([*state.ready, *state.workers.next()])
    if ending:
        starting = [node for node in starting if node not in ending]
    for node in starting:
        run_id, node_id = node.run.run_id, node.node_id
        if node.kind == "generate":
            held_s = 0.0 if node.held_at_s is None else now_s - node.held_at_s
            decisions.append(Send(run_id, node_id, telling.info(node, next(numbers)), held_s))
        else:
            decisions.append(Start(run_id, node_id))


def _tell(state: State, now_s: float, decisions: list[Decision]) -> None:
    by_model: dict[str, list[NodeState]] = {}
    for node in state.to_tell:
        by_model.setdefault(node.model, []).append(node)
    telling = InfoUpdates(now_s)
    for model, nodes in by_model.items():
        decisions.append(
            UpdateInfo(model, tuple(telling.info(node, node.request_id) for node in nodes))
        )

"""From state to decisions: a pure function, called once per batch of events.

It looks only at changes: each table of `State` holds only nodes that need a decision. Nodes that
wait for a thread or for admission are kept elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from agentrt.scheduler import decisions as do
from agentrt.scheduler.deadlines import expired_nodes
from agentrt.scheduler.decisions import Decision
from agentrt.scheduler.order.dispatch_order import in_dispatch_order
from agentrt.scheduler.order.request_info import InfoUpdates
from agentrt.scheduler.runs.run import NodeState
from agentrt.scheduler.state import State


def decide(state: State, now_s: float) -> tuple[Decision, ...]:
    """Decisions to make now; empty if nothing has changed.

    Endings come first, so that nothing starts that is about to end. Then come prompts that can
    grow, then new work, the most urgent first. Admissions are decided once all of that is done: a
    run that goes on after a pause commits its memory again as it sends.
    """
    due: list[Decision] = []
    ending: set[NodeState] = set()
    if state.to_stop or state.to_refuse:
        ending.update(state.to_stop)
        for node, reason in state.to_stop.items():
            due.append(do.StopNode(node.run.run_id, node.node_id, reason))
        for node, refusal in state.to_refuse.items():
            if node not in ending:
                ending.add(node)
                due.append(do.Refuse(node.run.run_id, node.node_id, refusal))
    if state.deadlines and state.deadlines[0][0] <= now_s:
        for node in expired_nodes(state.deadlines, now_s):
            if node not in ending:
                ending.add(node)
                due.append(do.Expire(node.run.run_id, node.node_id))
    if state.to_fill:
        due.extend(
            do.Fill(node.run.run_id, node.node_id) for node in state.to_fill if node not in ending
        )
    if state.ready or state.tool_slots.waiting:
        _start_ready(state, now_s, ending, due)
    if state.to_update:
        _update_info(state, now_s, due)
    if not due and state.admission.held and state.admission.is_due(now_s):
        due.append(state.admission.decide_admissions(now_s, state.order))
    return tuple(due)


def _start_ready(state: State, now_s: float, ending: set[NodeState], due: list[Decision]) -> None:
    numbers: Iterator[Any] = count(state.next_request)
    updates = InfoUpdates(now_s)
    starting = list(state.ready)
    if state.tool_slots.waiting:
        starting += state.tool_slots.next_tools()
    if len(starting) > 1:
        starting = in_dispatch_order(starting)
    if ending:
        starting = [node for node in starting if node not in ending]
    for node in starting:
        run_id, node_id = node.run.run_id, node.node_id
        if node.kind == "generate":
            held_s = 0.0 if node.held_at_s is None else now_s - node.held_at_s
            due.append(do.Send(run_id, node_id, updates.info_of(node, next(numbers)), held_s))
        else:
            due.append(do.Start(run_id, node_id))


def _update_info(state: State, now_s: float, due: list[Decision]) -> None:
    by_model: dict[str, list[NodeState]] = {}
    for node in state.to_update:
        by_model.setdefault(node.model, []).append(node)
    updates = InfoUpdates(now_s)
    for model, nodes in by_model.items():
        due.append(
            do.UpdateInfo(model, tuple(updates.info_of(node, node.request_id) for node in nodes))
        )

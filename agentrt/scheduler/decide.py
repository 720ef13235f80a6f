"""From state to decisions: a pure function, called once a batch of facts."""

from __future__ import annotations

from agentrt.scheduler.decisions import Decision, Expire, Fill, Send, Start, Stop, Tell
from agentrt.scheduler.state import NodeState, State


def decide(state: State, now_s: float) -> tuple[Decision, ...]:
    """What to do now; empty when nothing has changed.

    Endings come first, so that nothing is started for what is about to end, then prompts that can
    grow, then new work, demanded work first.
    """
    decisions: list[Decision] = []
    ending: set[NodeState] = set(state.to_stop)
    for node, reason in state.to_stop.items():
        decisions.append(Stop(node.run.run_id, node.node_id, reason))
    for node in _expired(state, now_s):
        if node not in ending:
            ending.add(node)
            decisions.append(Expire(node.run.run_id, node.node_id))
    decisions.extend(
        Fill(node.run.run_id, node.node_id) for node in state.to_fill if node not in ending
    )
    _start(state, ending, decisions)
    _tell(state, decisions)
    return tuple(decisions)


def _expired(state: State, now_s: float) -> list[NodeState]:
    if not state.timers or state.timers[0][0] > now_s:
        return []
    late = [t for t in state.timers if t[0] <= now_s]
    return [node for _, _, node in sorted(late) if node.status != "ended" and not node.stopping]


def _start(state: State, ending: set[NodeState], decisions: list[Decision]) -> None:
    if not state.ready:
        return
    threads = state.max_threaded - state.threaded
    for node in sorted(state.ready, key=_order):
        if node in ending:
            continue
        if node.threaded:
            if threads <= 0:
                continue
            threads -= 1
        if node.kind == "generate":
            send = Send(node.run.run_id, node.node_id, node.demanded, node.deadline_at_s)
            decisions.append(send)
        else:
            decisions.append(Start(node.run.run_id, node.node_id))


def _order(node: NodeState) -> tuple[bool, float, int]:
    return (not node.demanded, node.run.started_at_s, node.order)


def _tell(state: State, decisions: list[Decision]) -> None:
    if not state.to_tell:
        return
    by_model: dict[str, list[NodeState]] = {}
    for node in state.to_tell:
        by_model.setdefault(node.model, []).append(node)
    for model, nodes in by_model.items():
        decisions.append(Tell(model, tuple(node.facts() for node in nodes)))

"""The path of a run that has taken the time until now, for errors about deadlines."""

from __future__ import annotations

import math
from collections.abc import Mapping

from agentrt.base.run_progress import NodeProgress, RunProgress
from agentrt.program import Gen, Node, ToolWork
from agentrt.program.scope import sooner
from agentrt.scheduler import NodeState, RunState


def run_progress(run: RunState, nodes: Mapping[str, Node[object]], now_s: float) -> RunProgress:
    """The path that has taken the time, and the other nodes that have not ended.

    The path leads back from the running node that was demanded first, each time to the input or
    the awaited node that ended last.

    Args:
        run: State of the run in the scheduler.
        nodes: Nodes that have not ended, by id.
        now_s: Current time.
    """
    work = [node for node in run.nodes.values() if node.kind != "program"]
    pending = [node for node in work if node.status != "ended"]
    here = min(pending, key=lambda n: (not n.demanded, n.arrival), default=None)
    if here is None:
        here = max(work, key=lambda n: n.finished_at_s, default=None)
    path: list[NodeState] = []
    while here is not None and here not in path:
        path.append(here)
        here = _before(here, run)
    path.reverse()
    parts = [
        _part(node, before, nodes, now_s) for before, node in zip([None, *path], path, strict=False)
    ]
    others = [_part(node, None, nodes, now_s) for node in pending if node not in path]
    others.sort(key=lambda part: math.inf if part.slack_s is None else part.slack_s)
    return RunProgress(tuple(parts), tuple(others))


def _before(node: NodeState, run: RunState) -> NodeState | None:
    """The last input of a node, else the node that its code awaited before."""
    inputs = [source for source in node.inputs if source.kind != "program"]
    if inputs:
        return max(inputs, key=lambda n: (n.status != "ended", n.finished_at_s))
    known = run.nodes.get(node.after) if node.after is not None else None
    return None if known is None or known.kind == "program" else known


def _part(
    state: NodeState, before: NodeState | None, nodes: Mapping[str, Node[object]], now_s: float
) -> NodeProgress:
    is_live = state.status != "ended"
    start_s = state.declared_at_s
    if before is not None:
        start_s = max(start_s, before.finished_at_s)
    took_s = max(0.0, (now_s if is_live else state.finished_at_s) - start_s)
    node = nodes.get(state.node_id) if is_live else None
    if node is None or node.done:
        return NodeProgress(state.node_id, state.name, took_s)
    gen = node if isinstance(node, Gen) else None
    return NodeProgress(
        state.node_id,
        state.name,
        took_s,
        live=True,
        produced_tokens=gen.written.produced_tokens if gen is not None else 0,
        max_tokens=gen.max_tokens if gen is not None else 0,
        closes=gen is not None and gen.work.on_limit == "close",
        slack_s=_slack_s(state, node, now_s),
    )


def _slack_s(state: NodeState, node: Node[object], now_s: float) -> float | None:
    deadline_at_s = sooner(state.expires_at_s, node.scope.deadline_at_s)
    rest_s = _rest_s(state, node, now_s)
    return None if deadline_at_s is None or rest_s is None else deadline_at_s - now_s - rest_s


def _rest_s(state: NodeState, node: Node[object], now_s: float) -> float | None:
    """Time that the node still needs at its pace; None if it has not shown any."""
    if isinstance(node, Gen):
        decoding_s, tokens = now_s - node.written.first_token_at_s, node.written.produced_tokens
        if not tokens or decoding_s <= 0:
            return None
        return (node.max_tokens - tokens) * decoding_s / tokens
    timeout_s = node.work.spec.timeout_s if isinstance(node.work, ToolWork) else None
    if timeout_s is None:
        return None
    return max(0.0, timeout_s - (now_s - state.declared_at_s))

"""The path that took the time until now, for errors about deadlines."""

from __future__ import annotations

from agentrt.program import Gen, Node
from agentrt.scheduler import NodeState, RunState


def path_so_far(run: RunState, nodes: dict[str, Node[object]], now_s: float) -> str:
    """Such as `plan 1.2 s -> filings 4.9 s -> report 1.9 s, 212/700 tokens`; "" when empty.

    Walks back from the node that is still under way and was demanded first, each time to the input
    or the awaited node that ended last.
    """
    work = [node for node in run.nodes.values() if node.kind != "program"]
    pending = [node for node in work if node.status != "ended"]
    here = min(pending, key=lambda n: (not n.demanded, n.order), default=None)
    if here is None:
        here = max(work, key=lambda n: n.finished_at_s, default=None)
    path: list[NodeState] = []
    while here is not None and here not in path:
        path.append(here)
        here = _before(here, work)
    path.reverse()
    parts = [_part(node, before, now_s) for before, node in zip([None, *path], path, strict=False)]
    if path and isinstance(last := nodes.get(path[-1].node_id), Gen) and not last.done:
        parts[-1] += f", {last.produced_tokens}/{last.max_tokens} tokens"
    others = [node for node in pending if node not in path]
    if others:
        shown = [f"{n.name} {max(0.0, now_s - n.declared_at_s):.1f} s" for n in others[:8]]
        parts[-1] += f"; also under way: {', '.join(shown)}"
    return " -> ".join(parts)


def _before(node: NodeState, work: list[NodeState]) -> NodeState | None:
    """What this node waited for: its last input, else what its code awaited before it."""
    inputs = [source for source in node.inputs if source.kind != "program"]
    if inputs:
        return max(inputs, key=lambda n: (n.status != "ended", n.finished_at_s))
    known = {other.node_id: other for other in work}
    return known.get(node.after) if node.after is not None else None


def _part(node: NodeState, before: NodeState | None, now_s: float) -> str:
    start_s = node.declared_at_s
    if before is not None:
        start_s = max(start_s, before.finished_at_s)
    end_s = node.finished_at_s if node.status == "ended" else now_s
    return f"{node.name} {max(0.0, end_s - start_s):.1f} s"

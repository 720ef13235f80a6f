"""The graph of a recorded run: its nodes, what each needed, and the critical path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from agentrt.analysis.graph.node_graph import GraphEdge, GraphNode, How, NodeGraph, Shape
from agentrt.telemetry import names
from agentrt.telemetry.node_figures import NodeFigures, node_figures, run_figures
from agentrt.telemetry.span import Span, Trace
from agentrt.telemetry.waits import TraceNodes

_NOTES = (
    "What one run did: each box is a node, an arrow a value that it needed. Thick: the critical "
    "path, whose dashed parts are mere order in time.",
    "Text that code took from an awaited value and put into a prompt by itself is no arrow.",
)
_SHAPES: dict[str, Shape] = {"generate": "generate", "tool": "tool", "ask": "ask"}


def run_graph(trace: Trace) -> NodeGraph:
    """The graph of the run with this trace; a program is shown only if nothing ran inside it."""
    nodes = TraceNodes(trace)
    run = run_figures(trace.trace_id, nodes)
    parents = {node_id.rpartition("/")[0] for node_id in nodes.nodes}
    leaves = dict.fromkeys(node_id for node_id in nodes.nodes if node_id not in parents)
    found = [_box(node_figures(nodes, nodes.nodes[node_id])) for node_id in leaves]
    path = [node_id for node_id in run.path if node_id in leaves]
    edges = tuple(_edges(nodes, leaves, path))
    title = f"{run.program or trace.name}, run {run.run_id}: {run.compound_ms:.1f} ms"
    return NodeGraph(title, tuple(found), edges, _NOTES)


def _box(node: NodeFigures) -> GraphNode:
    below = node.node_id.partition("/")[2] or node.node_id
    took = f"{node.figures.took_ms:.1f} ms"
    if node.figures.output_tokens:
        took += f", {node.figures.output_tokens} tokens"
    lines = [below, took, *(["failed"] if node.error is not None else []), node.site]
    shape = _SHAPES.get(node.kind, "program")
    is_critical = node.is_critical
    return GraphNode(node.node_id, tuple(filter(None, lines)), shape, is_critical=is_critical)


def _edges(nodes: TraceNodes, leaves: Mapping[str, None], path: list[str]) -> Iterator[GraphEdge]:
    by_span = {span.span_id: node_id for node_id, span in nodes.nodes.items()}
    along = set(pairwise(path))
    drawn: set[tuple[str, str]] = set()
    for target in leaves:
        for source, how in _needed(nodes.nodes[target], by_span):
            for one in _leaves_of(source, leaves):
                if one != target and (one, target) not in drawn:
                    drawn.add((one, target))
                    yield GraphEdge(one, target, how, is_critical=(one, target) in along)
    for source, target in sorted(along - drawn):
        if (target, source) not in drawn:
            yield GraphEdge(source, target, "order", is_critical=True)


def _needed(span: Span, by_span: dict[str, str]) -> Iterator[tuple[str, How]]:
    for link in span.links:
        source = by_span.get(link.span_id)
        if source is not None:
            how = link.attributes.get(names.LINK)
            if how != "fork":  # a shared prefix is no value that is waited for
                yield source, "starts" if how == "item" else "value"


def _leaves_of(node_id: str, leaves: Mapping[str, None]) -> list[str]:
    """The node itself, or the last node inside a program, which gives its result."""
    if node_id in leaves:
        return [node_id]
    inside = [one for one in leaves if one.startswith(f"{node_id}/")]
    return inside[-1:]

"""The graph of a program's code as a graph to be drawn."""

from __future__ import annotations

from agentrt.analysis.graph.node_graph import GraphEdge, GraphNode, NodeGraph
from agentrt.program.code.code_graph import INPUT, RESULT, CodeGraph

_NOTES = (
    "Read from the code, nothing was run. A box is a place that makes nodes: `many` in a loop, "
    "`maybe` in a branch or if a model decides.",
    "Not shown: how often, what a branch decides, nodes made by code that is only known at run "
    "time. agentrt graph --run RUN draws what a run did.",
)


def code_picture(graph: CodeGraph) -> NodeGraph:
    """Boxes and arrows of a program, with its input and its result."""
    ends = {link.source for link in graph.links} | {link.target for link in graph.links}
    nodes = [
        GraphNode(
            site.key,
            tuple(line for line in (site.name, site.detail, site.where) if line),
            site.kind,
            is_many=site.is_many,
            is_maybe=site.is_maybe,
        )
        for site in graph.sites
    ]
    if INPUT in ends:
        nodes.insert(0, GraphNode(INPUT, ("input", ", ".join(graph.parameters)), "end"))
    if RESULT in ends:
        nodes.append(
            GraphNode(RESULT, ("result", *([graph.result] if graph.result else [])), "end")
        )
    edges = tuple(GraphEdge(link.source, link.target, link.how) for link in graph.links)
    notes: list[str] = list(_NOTES)
    if graph.not_followed:
        notes.append(f"Not followed: {', '.join(graph.not_followed)}.")
    return NodeGraph(f"{graph.name} ({graph.where})", tuple(nodes), edges, tuple(notes))

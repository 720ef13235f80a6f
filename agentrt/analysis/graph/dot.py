"""A graph in the language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from agentrt.analysis.graph.node_graph import (
    COLOURS,
    CRITICAL_COLOUR,
    GraphEdge,
    GraphNode,
    NodeGraph,
    Shape,
    lines_of,
)

_SHAPES: dict[Shape, str] = {
    "end": "oval",
    "generate": "box",
    "tool": "parallelogram",
    "program": "box3d",
    "ask": "hexagon",
}


def dot(graph: NodeGraph) -> str:
    """The graph as the text of a `digraph`."""
    return "\n".join(_lines(graph)) + "\n"


def _lines(graph: NodeGraph) -> Iterator[str]:
    yield f"digraph {_quoted(graph.title)} {{"
    yield from (f"  // {' '.join(note.split())}" for note in graph.notes)
    yield '  node [fontname="sans-serif", style=filled]; edge [fontname="sans-serif"];'
    numbers = {node.key: f"n{number}" for number, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        yield f"  {numbers[node.key]} [{_node(node)}];"
    for edge in graph.edges:
        yield f"  {numbers[edge.source]} -> {numbers[edge.target]}{_edge(edge)};"
    yield "}"


def _node(node: GraphNode) -> str:
    style = "filled,dashed" if node.is_maybe else "filled"
    given = {
        "label": _quoted("\n".join(lines_of(node))),
        "shape": _SHAPES[node.shape],
        "fillcolor": _quoted(COLOURS[node.shape]),
        "style": _quoted(style),
    }
    if node.is_many:
        given["peripheries"] = "2"
    if node.is_critical:
        given |= {"color": _quoted(CRITICAL_COLOUR), "penwidth": "3"}
    return ", ".join(f"{name}={value}" for name, value in given.items())


def _edge(edge: GraphEdge) -> str:
    given: dict[str, str] = {}
    if edge.how != "value":
        given["style"] = "dashed"
    if edge.how in ("starts", "decides"):
        given["label"] = edge.how
    if edge.is_critical:
        given |= {"color": _quoted(CRITICAL_COLOUR), "penwidth": "3"}
    text = ", ".join(f"{name}={value}" for name, value in given.items())
    return f" [{text}]" if text else ""


def _quoted(text: str) -> str:
    """A quoted text; a new line in it is one in the drawing too."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{plain}"'

"""A graph in Mermaid's language, which GitHub and many editors draw."""

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

_BRACKETS: dict[Shape, tuple[str, str]] = {
    "end": ("([", "])"),
    "generate": ("[", "]"),
    "tool": ("[/", "/]"),
    "program": ("[[", "]]"),
    "ask": ("{{", "}}"),
}
_ARROWS = {"value": "-->", "starts": "-. starts .->", "decides": "-. decides .->", "order": "-.->"}


def mermaid(graph: NodeGraph) -> str:
    """The graph as the text of a flowchart."""
    return "\n".join(_lines(graph)) + "\n"


def _lines(graph: NodeGraph) -> Iterator[str]:
    numbers = {node.key: f"n{number}" for number, node in enumerate(graph.nodes)}
    yield "flowchart TD"
    yield f"  %% {_comment(graph.title)}"
    yield from (f"  %% {_comment(note)}" for note in graph.notes)
    for node in graph.nodes:
        begin, end = _BRACKETS[node.shape]
        yield f'  {numbers[node.key]}{begin}"{_text(node)}"{end}:::{_class(node)}'
    for edge in graph.edges:
        yield f"  {numbers[edge.source]} {_ARROWS[edge.how]} {numbers[edge.target]}"
    yield from _styles(graph)


def _styles(graph: NodeGraph) -> Iterator[str]:
    for name, node in {_class(node): node for node in graph.nodes}.items():
        stroke = f"stroke:{CRITICAL_COLOUR},stroke-width:3px" if node.is_critical else "stroke:#666"
        dashes = ",stroke-dasharray:5 4" if node.is_maybe else ""
        yield f"  classDef {name} fill:{COLOURS[node.shape]},{stroke}{dashes},color:#000"
    critical = [str(at) for at, edge in enumerate(graph.edges) if _is_critical(edge)]
    if critical:
        yield f"  linkStyle {','.join(critical)} stroke:{CRITICAL_COLOUR},stroke-width:3px"


def _is_critical(edge: GraphEdge) -> bool:
    return edge.is_critical


def _class(node: GraphNode) -> str:
    marks = ("Maybe" if node.is_maybe else "") + ("Critical" if node.is_critical else "")
    return f"{node.shape}{marks}Node"  # `end` alone is a word of the language


def _text(node: GraphNode) -> str:
    return "<br/>".join(map(_escaped, lines_of(node)))


def _escaped(line: str) -> str:
    """Text of a quoted label: all that the language or HTML could read as its own is coded."""
    return "".join(
        char if char.isalnum() or char in " .,:;_-/()[]|=+*?!'…" else f"#{ord(char)};"
        for char in line
    )


def _comment(text: str) -> str:
    """A comment may hold no braces, and ends with its line."""
    return " ".join(text.split()).translate({ord("{"): "(", ord("}"): ")"})

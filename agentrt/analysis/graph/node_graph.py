"""A graph to be drawn: what a program may do, or what a run did."""

from __future__ import annotations

from typing import Literal

from agentrt.base.record import record

Shape = Literal["end", "generate", "tool", "program", "ask"]
How = Literal["value", "starts", "decides", "order"]


@record
class GraphNode:
    """A box.

    Attributes:
        key: Key in the graph.
        lines: Text, a line each.
        shape: Kind of node; `end` for the input and the result.
        is_many: Whether it stands for any number of nodes.
        is_maybe: Whether there may be no such node.
        is_critical: Whether the critical path goes through it.
    """

    key: str
    lines: tuple[str, ...]
    shape: Shape
    is_many: bool = False
    is_maybe: bool = False
    is_critical: bool = False


@record
class GraphEdge:
    """An arrow.

    Attributes:
        source: Key of the box where it begins.
        target: Key of the box where it ends.
        how: A `value` that is needed, a plan that `starts` a tool, a value that `decides` whether
            there is such a node, or mere `order` in time.
        is_critical: Whether the critical path goes along it.
    """

    source: str
    target: str
    how: How = "value"
    is_critical: bool = False


@record
class NodeGraph:
    """Boxes and arrows.

    Attributes:
        title: Title above.
        nodes: Boxes, in the order of the code or of time.
        edges: Arrows; both ends are boxes of the graph.
        notes: Sentences on the limits of the picture.
    """

    title: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    notes: tuple[str, ...] = ()


COLOURS: dict[Shape, str] = {
    "end": "#ffffff",
    "generate": "#d7e8f5",
    "tool": "#d5eee3",
    "program": "#eeeeee",
    "ask": "#f6e3ee",
}
"""Colour of a box by its shape."""
CRITICAL_COLOUR = "#d55e00"


def lines_of(node: GraphNode) -> tuple[str, ...]:
    """Text of a box, with a word for what the drawing of its border stands for."""
    marks = [word for word, is_it in (("many", node.is_many), ("maybe", node.is_maybe)) if is_it]
    return (*node.lines, f"({', '.join(marks)})") if marks else node.lines

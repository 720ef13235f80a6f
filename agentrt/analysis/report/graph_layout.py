"""Places of boxes and edges of a layered graph, in pixels."""

from __future__ import annotations

from collections import defaultdict

from agentrt.analysis.graph.layered_layout import Point, Spacing, layered_layout
from agentrt.analysis.report.program_graph import ProgramGraph
from agentrt.base.record import record

WIDTH, HEIGHT = 172, 46
"""Size of a box."""

_ACROSS = Spacing(between=14, layers=52)
_DOWN = Spacing(between=20, layers=40)
_MARGIN = 4
_LOOP = 34  # room beside the boxes for edges that lead back
MOST_ACROSS = 1000


@record
class GraphLayout:
    """Picture of a graph.

    Attributes:
        width: Width of the picture.
        height: Height of the picture.
        across: Whether time goes from left to right; else downwards.
        boxes: Left upper corner of each box, by key.
        edges: Points that each edge passes, by its two ends; edges that lead back are left out.
    """

    width: float
    height: float
    across: bool
    boxes: dict[str, Point]
    edges: dict[tuple[str, str], tuple[Point, ...]]


def layouts(graph: ProgramGraph) -> tuple[GraphLayout, GraphLayout]:
    """The layout for a wide page, and that for a phone; often the same.

    On a wide page layers stand side by side if they fit, else one below the other. On a phone the
    narrower of the two is best.
    """
    across, down = layout(graph, across=True), layout(graph, across=False)
    wide = across if across.width <= MOST_ACROSS else down
    return wide, min(across, down, key=lambda one: one.width)


def layout(graph: ProgramGraph, *, across: bool) -> GraphLayout:
    """Places of boxes and edges.

    No two boxes overlap. An edge that passes a layer has a place of its own there.

    Args:
        graph: The graph.
        across: Whether layers stand from left to right; else one below the other.
    """
    ends = [(edge.source, edge.target) for edge in graph.edges if not edge.is_back]
    sizes = {box.key: (float(WIDTH), float(HEIGHT)) for box in graph.boxes}
    spacing = _ACROSS if across else _DOWN
    placed = layered_layout(_layers(graph), ends, sizes, spacing, across=across)
    loop = _LOOP if any(edge.is_back for edge in graph.edges) else 0
    return GraphLayout(
        placed.width + 2 * _MARGIN + (0 if across else loop),
        placed.height + 2 * _MARGIN + (loop if across else 0),
        across,
        {
            key: (x - WIDTH / 2 + _MARGIN, y - HEIGHT / 2 + _MARGIN)
            for key, (x, y) in placed.boxes.items()
        },
        {
            arrow: tuple((x + _MARGIN, y + _MARGIN) for x, y in points)
            for arrow, points in placed.ways.items()
        },
    )


def _layers(graph: ProgramGraph) -> list[list[str]]:
    """Keys of the boxes by rank, ranks without any left out."""
    found: dict[int, list[str]] = defaultdict(list)
    for box in graph.boxes:
        found[box.rank].append(box.key)
    return [found[rank] for rank in sorted(found)]

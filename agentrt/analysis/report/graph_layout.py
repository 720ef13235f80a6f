"""Places of boxes and edges of a layered graph, in pixels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

from agentrt.analysis.report.program_graph import ProgramGraph
from agentrt.base.record import record

WIDTH, HEIGHT = 172, 46
"""Size of a box."""

_ACROSS, _DOWN = 52, 14
"""Room between layers that stand side by side, and between boxes of a layer."""

_BELOW, _BESIDE = 40, 20
"""Room between layers that stand one below the other, and between boxes of a layer."""

_MARGIN = 4
_LANE = 12  # room for an edge that passes a layer
_LOOP = 34  # room beside the boxes for edges that lead back
_SWEEPS = 4
MOST_ACROSS = 1000

Point = tuple[float, float]


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
    layers = _layers(graph)
    ends = [(edge.source, edge.target) for edge in graph.edges if not edge.is_back]
    chains = _chains(layers, ends)
    _order(layers, chains)
    centres, length, breadth = _centres(layers, across)
    real = {box.key for box in graph.boxes}
    depth = (WIDTH if across else HEIGHT) / 2
    boxes = {}
    for key in real:
        along, beside = centres[key]
        x, y = (along, beside) if across else (beside, along)
        boxes[key] = (x - WIDTH / 2, y - HEIGHT / 2)
    edges = {}
    for pair, chain in chains.items():
        points = [(centres[chain[0]][0] + depth, centres[chain[0]][1])]
        points += [centres[key] for key in chain[1:-1]]
        points.append((centres[chain[-1]][0] - depth, centres[chain[-1]][1]))
        edges[pair] = tuple(point if across else (point[1], point[0]) for point in points)
    if any(edge.is_back for edge in graph.edges):
        breadth += _LOOP
    size = (length, breadth) if across else (breadth, length)
    return GraphLayout(*size, across, boxes, edges)


def _layers(graph: ProgramGraph) -> list[list[str]]:
    """Keys of the boxes by rank, ranks without any left out."""
    found: dict[int, list[str]] = defaultdict(list)
    for box in graph.boxes:
        found[box.rank].append(box.key)
    return [found[rank] for rank in sorted(found)]


def _chains(
    layers: list[list[str]], ends: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], list[str]]:
    """The keys that each edge passes; places in the layers between are added to these."""
    level = {key: at for at, keys in enumerate(layers) for key in keys}
    found = {}
    for number, (source, target) in enumerate(ends):
        between = range(level[source] + 1, level[target])
        lanes = [f"\0{number}:{at}" for at in between]
        for at, lane in zip(between, lanes, strict=True):
            layers[at].append(lane)
        found[source, target] = [source, *lanes, target]
    return found


def _order(layers: list[list[str]], chains: Mapping[tuple[str, str], list[str]]) -> None:
    """Order each layer by the mean place of its neighbours, so that few edges cross."""
    before: dict[str, list[str]] = defaultdict(list)
    after: dict[str, list[str]] = defaultdict(list)
    for chain in chains.values():
        for source, target in pairwise(chain):
            before[target].append(source)
            after[source].append(target)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        neighbours = before if down else after
        for at in range(1, len(layers)) if down else range(len(layers) - 2, -1, -1):
            beside = layers[at - 1 if down else at + 1]
            place = {key: (index + 0.5) / len(beside) for index, key in enumerate(beside)}
            layers[at].sort(key=lambda key: _mean([place[one] for one in neighbours[key]]))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.5


def _centres(
    layers: Sequence[Sequence[str]], across: bool
) -> tuple[dict[str, Point], float, float]:
    """Centres along and beside the direction of time, and the size in both."""
    size = HEIGHT if across else WIDTH
    gap = _DOWN if across else _BESIDE
    depth, room = (WIDTH, _ACROSS) if across else (HEIGHT, _BELOW)
    sizes = [[_LANE if key.startswith("\0") else size for key in layer] for layer in layers]
    breadths = [sum(one) + gap * (len(one) - 1) for one in sizes]
    breadth = max(breadths, default=0) + 2 * _MARGIN
    found: dict[str, Point] = {}
    for at, layer in enumerate(layers):
        along = _MARGIN + at * (depth + room) + depth / 2
        beside = (breadth - breadths[at]) / 2
        for key, own in zip(layer, sizes[at], strict=True):
            found[key] = (along, beside + own / 2)
            beside += own + gap
    length = len(layers) * (depth + room) - room + 2 * _MARGIN if layers else 0.0
    return found, length, breadth

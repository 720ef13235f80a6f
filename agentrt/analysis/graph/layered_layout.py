"""Places of the boxes of a layered graph, and the ways of its arrows."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from agentrt.base.record import record

Point = tuple[float, float]
Arrow = tuple[str, str]

_SWEEPS = 8
_LANE = 12.0  # pixels beside an arrow that passes a layer
_LANE_WEIGHT = 4.0  # arrows are kept straight rather than boxes right above each other
MOST_LANES = 4000
"""Places of arrows in layers that these pass; with more, the longest arrows have none."""


@record
class Spacing:
    """Room in a picture, in pixels.

    Attributes:
        between: Between two boxes of a layer.
        layers: Between two layers.
    """

    between: float
    layers: float


@record
class LayeredLayout:
    """A placed graph, in pixels from its upper left corner.

    Attributes:
        width: Width of all.
        height: Height of all.
        boxes: Middle of each box, by key.
        ways: Points that each arrow passes, from border to border.
    """

    width: float
    height: float
    boxes: dict[str, Point]
    ways: dict[Arrow, tuple[Point, ...]]


def layered_layout(
    layers: Sequence[Sequence[str]],
    arrows: Iterable[Arrow],
    sizes: Mapping[str, Point],
    spacing: Spacing,
    *,
    across: bool = False,
) -> LayeredLayout:
    """Places of boxes and arrows: few arrows cross, most are straight, no two boxes overlap.

    An arrow that passes a layer has a place of its own there, so that it leads through no box.

    Example:
        >>> sizes = {key: (40.0, 20.0) for key in "abc"}
        >>> placed = layered_layout(["a", "bc"], [("a", "b"), ("a", "c")], sizes, Spacing(10, 30))
        >>> placed.width, placed.height, placed.boxes["b"]
        (90.0, 70.0, (20.0, 60.0))

    Args:
        layers: Keys of the boxes by layer, each in its preferred order.
        arrows: Ends of each arrow, the second one in a later layer.
        sizes: Width and height of each box in pixels.
        spacing: Room between boxes.
        across: Whether layers stand from left to right; else one below the other.
    """
    # Along is the direction of the layers, beside that within a layer.
    breadths = {key: height if across else width for key, (width, height) in sizes.items()}
    depths = {key: width if across else height for key, (width, height) in sizes.items()}
    rows, chains = _with_lanes(layers, [(source, target) for source, target in arrows])
    links = [link for chain in chains.values() for link in pairwise(chain)]
    rows = _ordered(rows, links)
    beside = _beside(rows, links, breadths, spacing.between)
    least = min((beside[key] - breadths[key] / 2 for key in breadths), default=0.0)
    most = max((beside[key] + breadths[key] / 2 for key in breadths), default=0.0)
    least = min([least, *beside.values()], default=least)
    most = max([most, *beside.values()], default=most)
    begins, ends, at = [], [], 0.0
    for row in rows:
        begins.append(at)
        ends.append(at + max((depths[key] for key in row if key in depths), default=0.0))
        at = ends[-1] + spacing.layers
    level = {key: number for number, row in enumerate(rows) for key in row}
    middle = {key: (begins[level[key]] + ends[level[key]]) / 2 for key in level}

    def point(along: float, key: str) -> Point:
        found = beside[key] - least
        return (along, found) if across else (found, along)

    ways = {}
    for arrow, chain in chains.items():
        source, *lanes, target = chain
        points = [point(middle[source] + depths[source] / 2, source)]
        for lane in lanes:
            points += [point(begins[level[lane]], lane), point(ends[level[lane]], lane)]
        ways[arrow] = (*points, point(middle[target] - depths[target] / 2, target))
    length, breadth = max(at - spacing.layers, 0.0), most - least
    boxes = {key: point(middle[key], key) for key in breadths}
    width, height = (length, breadth) if across else (breadth, length)
    return LayeredLayout(width, height, boxes, ways)


def crossings(rows: Sequence[Sequence[str]], links: Iterable[Arrow]) -> int:
    """How many pairs of links between neighbouring layers cross.

    Args:
        rows: Keys of each layer in order.
        links: Ends of each link, in neighbouring layers.
    """
    level = {key: (at, place) for at, row in enumerate(rows) for place, key in enumerate(row)}
    places: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for source, target in links:
        at, place = level[source]
        places[at].append((place, level[target][1]))
    found = 0
    for pairs in places.values():
        seen: list[int] = []
        for _, place in sorted(pairs):
            found += len(seen) - bisect_right(seen, place)
            insort(seen, place)
    return found


def _with_lanes(
    layers: Sequence[Sequence[str]], arrows: Sequence[Arrow]
) -> tuple[list[list[str]], dict[Arrow, list[str]]]:
    """Layers with a lane for each arrow that passes them, and the keys along each arrow."""
    rows = [list(layer) for layer in layers]
    level = {key: at for at, row in enumerate(rows) for key in row}
    left = MOST_LANES
    chains = {}
    by_length = sorted(arrows, key=lambda arrow: level[arrow[1]] - level[arrow[0]])
    for number, (source, target) in enumerate(by_length):
        passed = range(level[source] + 1, level[target])
        left -= len(passed)
        lanes = [f"\0{number}:{at}" for at in passed] if left >= 0 else []
        for at, lane in zip(passed, lanes, strict=False):
            rows[at].append(lane)
        chains[source, target] = [source, *lanes, target]
    return rows, {arrow: chains[arrow] for arrow in arrows}


def _ordered(rows: list[list[str]], links: Sequence[Arrow]) -> list[list[str]]:
    """The order with fewest crossings, of those that sweeps by the mean of neighbours give."""
    level = {key: at for at, row in enumerate(rows) for key in row}
    short = [(one, other) for one, other in links if level[other] == level[one] + 1]
    before, after = _neighbours(short)
    rows = [list(row) for row in rows]
    best, fewest = [list(row) for row in rows], crossings(rows, short)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        near = before if down else after
        for at in range(1, len(rows)) if down else range(len(rows) - 2, -1, -1):
            beside = rows[at - 1 if down else at + 1]
            place = {key: index for index, key in enumerate(beside)}
            own = {key: index * len(beside) / len(rows[at]) for index, key in enumerate(rows[at])}
            mean = {key: _mean([place[one] for one in near[key]], own[key]) for key in rows[at]}
            rows[at].sort(key=lambda key: mean[key])
        found = crossings(rows, short)
        if found < fewest:
            best, fewest = [list(row) for row in rows], found
    return best


def _beside(
    rows: Sequence[Sequence[str]],
    links: Sequence[Arrow],
    breadths: Mapping[str, float],
    gap: float,
) -> dict[str, float]:
    """Middle of each box and lane within its layer, as near to its neighbours as there is room."""
    before, after = _neighbours(links)
    found: dict[str, float] = {}
    steps = [
        [
            (breadths.get(one, _LANE) + breadths.get(other, _LANE)) / 2 + gap
            for one, other in pairwise(row)
        ]
        for row in rows
    ]
    for row, step in zip(rows, steps, strict=True):
        at = -sum(step) / 2
        for key, on in zip(row, [*step, 0.0], strict=True):
            found[key] = at
            at += on
    for sweep in range(_SWEEPS + 1):  # the last one leads down: chains hang straight
        down = sweep % 2 == 0
        near = before if down else after
        for at in range(len(rows)) if down else range(len(rows) - 1, -1, -1):
            row = rows[at]
            wished = [_mean([found[one] for one in near[key]], found[key]) for key in row]
            weights = [1.0 if key in breadths else _LANE_WEIGHT for key in row]
            found |= zip(row, _spread(wished, weights, steps[at]), strict=True)
    return found


def _spread(wished: list[float], weights: list[float], steps: list[float]) -> list[float]:
    """The places nearest to those wished, by weighted squares, at least `steps` apart."""
    offsets = [0.0]
    for step in steps:
        offsets.append(offsets[-1] + step)
    blocks: list[tuple[float, float, int]] = []  # mean, weight and number of members
    for wish, offset, weight in zip(wished, offsets, weights, strict=True):
        mean, size = wish - offset, 1
        while blocks and blocks[-1][0] > mean:
            other, other_weight, members = blocks.pop()
            total = weight + other_weight
            mean = (mean * weight + other * other_weight) / total
            weight, size = total, size + members
        blocks.append((mean, weight, size))
    means = [mean for mean, _, size in blocks for _ in range(size)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


def _neighbours(links: Iterable[Arrow]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    before: dict[str, list[str]] = defaultdict(list)
    after: dict[str, list[str]] = defaultdict(list)
    for source, target in links:
        before[target].append(source)
        after[source].append(target)
    return before, after


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise

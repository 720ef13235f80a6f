"""Places of the boxes of a graph: layers from top to bottom, with few crossing arrows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentrt.analysis.graph.node_graph import NodeGraph

_ROUNDS = 4
"""Passes over the layers, down and up, that move each box towards its neighbours."""


@dataclass(slots=True)
class Layers:
    """Boxes by layer.

    Attributes:
        rows: Keys of each layer, from left to right.
        back: Arrows that lead up again, as those of a loop do.
    """

    rows: list[list[str]]
    back: set[tuple[str, str]] = field(default_factory=set)


def layers(graph: NodeGraph) -> Layers:
    """Layers of a graph: each box lies below all that lead to it, loops left out."""
    keys = [node.key for node in graph.nodes]
    arrows = [(edge.source, edge.target) for edge in graph.edges]
    back = _back_arrows(keys, arrows)
    ahead = [arrow for arrow in arrows if arrow not in back]
    depth = _depths(keys, ahead)
    rows: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for key in keys:
        rows[depth[key]].append(key)
    return Layers(_with_few_crossings(rows, ahead), back)


def _back_arrows(keys: Sequence[str], arrows: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """Arrows to a box that is still being visited, depth first; without them there is no loop."""
    after: dict[str, list[str]] = defaultdict(list)
    for source, target in arrows:
        after[source].append(target)
    back: set[tuple[str, str]] = set()
    done: set[str] = set()
    for first in keys:
        open_keys: dict[str, int] = {first: 0} if first not in done else {}
        while open_keys:
            key, at = open_keys.popitem()
            if at >= len(after[key]):
                done.add(key)
                continue
            open_keys[key] = at + 1
            target = after[key][at]
            if target in open_keys:
                back.add((key, target))
            elif target not in done:
                open_keys[target] = 0
    return back


def _depths(keys: Sequence[str], arrows: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Longest way to each box, in arrows."""
    before: dict[str, list[str]] = defaultdict(list)
    after: dict[str, list[str]] = defaultdict(list)
    for source, target in arrows:
        before[target].append(source)
        after[source].append(target)
    missing = {key: len(before[key]) for key in keys}
    ready = [key for key in keys if not missing[key]]
    depth = dict.fromkeys(keys, 0)
    for key in ready:  # grows meanwhile
        for target in after[key]:
            depth[target] = max(depth[target], depth[key] + 1)
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    return depth


def _with_few_crossings(
    rows: list[list[str]], arrows: Sequence[tuple[str, str]]
) -> list[list[str]]:
    near: Mapping[str, list[str]] = defaultdict(list)
    for source, target in arrows:
        near[target].append(source)
        near[source].append(target)
    for number in range(_ROUNDS):
        order = rows if number % 2 == 0 else rows[::-1]
        place = {key: at / max(1, len(row)) for row in rows for at, key in enumerate(row)}
        for row in order:
            weight = {key: _mean([place[one] for one in near[key]], place[key]) for key in row}
            row.sort(key=lambda key: weight[key])
            place |= {key: at / len(row) for at, key in enumerate(row)}
    return rows


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise

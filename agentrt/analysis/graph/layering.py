"""Layers of a graph: each box comes behind all that lead to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentrt.analysis.graph.node_graph import NodeGraph


@dataclass(slots=True)
class Layers:
    """Boxes by layer.

    Attributes:
        rows: Keys of each layer, in the order of the graph.
        back: Arrows that lead up again, as those of a loop do.
    """

    rows: list[list[str]]
    back: set[tuple[str, str]] = field(default_factory=set)


def layers(graph: NodeGraph) -> Layers:
    """Layers of a graph: each box lies below all that lead to it, loops left out.

    A box that nothing leads to lies right above the first one that it leads to.
    """
    keys = [node.key for node in graph.nodes]
    arrows = [(edge.source, edge.target) for edge in graph.edges]
    back = _back_arrows(keys, arrows)
    ahead = [arrow for arrow in arrows if arrow not in back]
    depth = _depths(keys, ahead)
    rows: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for key in keys:
        rows[depth[key]].append(key)
    return Layers([row for row in rows if row], back)


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
    """Longest way to each box, in arrows; to one that nothing leads to, as far as its own allow."""
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
    for key in keys:
        if after[key] and not before[key]:
            depth[key] = min(depth[target] for target in after[key]) - 1
    return depth

"""Bounds on how deep native code can recurse in a schema or grammar, references included.

All walks are iterative. A bound holds for every order in which a compiler may visit the nodes, as
long as it does not enter a node that it is already inside of.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from agentrt.base.record import record
from agentrt.structured.json_schema.keywords import children, resolve

_MAX_NODES = 100_000
_BEYOND = 1 << 30


@record
class NestingDepth:
    """Depth of nesting through references.

    Attributes:
        chain: Longest chain of nodes if each group that refers to itself counts as its heaviest
            node: what is deep in any order.
        most: Bound on the depth in any order: such a group counts as the sum of its nodes.
    """

    chain: int
    most: int


def schema_depth(schema: Any) -> NestingDepth:
    """Depth of a schema, with references to any place of it."""
    places: dict[int, int] = {}
    nodes: list[Any] = []

    def place_of(node: Any) -> int:
        if id(node) not in places:
            places[id(node)] = len(nodes)
            nodes.append(node)
        return places[id(node)]

    place_of(schema)
    edges: list[list[int]] = []
    while len(edges) < len(nodes):  # grows as nodes are met
        here = nodes[len(edges)]
        below = [child for _, child in children(here)] if isinstance(here, dict) else []
        ref = here.get("$ref") if isinstance(here, dict) else None
        if isinstance(ref, str) and isinstance(schema, dict):
            below.append(resolve(schema, ref))
        edges.append([place_of(child) for child in below if isinstance(child, dict)])
        if len(nodes) > _MAX_NODES:
            return NestingDepth(_BEYOND, _BEYOND)
    return _depth(edges, [1] * len(edges))


def grammar_depth(lark: str) -> NestingDepth:
    """Depth of the rules of a Lark grammar, brackets included."""
    text = _LITERAL.sub(" ", lark)
    starts = list(_RULE.finditer(text))
    if not starts:
        return NestingDepth(_brackets(text), _brackets(text))
    places = {found[1]: place for place, found in enumerate(starts)}
    edges: list[list[int]] = [[] for _ in starts]
    weights: list[int] = []
    ends = [found.start() for found in starts[1:]] + [len(text)]
    for found, end in zip(starts, ends, strict=True):
        body = text[found.end() : end]
        edges[places[found[1]]] += {places[n] for n in _NAME.findall(body) if n in places}
        weights.append(1 + _brackets(body))
    whole = _depth(edges, weights)
    outside = _brackets(text[: starts[0].start()])
    return NestingDepth(whole.chain + outside, whole.most + outside)


def brackets_depth(pattern: str) -> int:
    """Nesting of the groups of a regex."""
    return _brackets(_ESCAPED.sub("", pattern))


_ESCAPED = re.compile(r"\\.", re.DOTALL)
_LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|#[^\n]*')
_RULE = re.compile(r"^[ \t]*[?!]*([A-Za-z_]\w*)(?:\[[^\]\n]*\])?(?:\.-?\d+)?[ \t]*:", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_]\w*")


def _brackets(text: str) -> int:
    """Largest number of brackets open at once; those that close nothing do not count."""
    depth = deepest = 0
    for char in re.findall(r"[()\[\]{}]", text):
        depth = depth + 1 if char in "([{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


def _depth(edges: Sequence[Sequence[int]], weights: Sequence[int]) -> NestingDepth:
    """The longest paths of a graph."""
    chain = [0] * len(edges)
    most = [0] * len(edges)
    for group in _groups(edges):  # those that it leads to came before
        below = [place for node in group for place in edges[node]]
        longest = max(weights[node] for node in group)
        summed = sum(weights[node] for node in group)
        deep_chain = longest + max((chain[place] for place in below), default=0)
        deep_most = summed + max((most[place] for place in below), default=0)
        for node in group:
            chain[node], most[node] = deep_chain, deep_most
    return NestingDepth(max(chain, default=0), max(most, default=0))


def _groups(edges: Sequence[Sequence[int]]) -> list[list[int]]:
    """Strongly connected components, each after all that it leads to (Tarjan, iterative)."""
    index = [-1] * len(edges)
    low = [0] * len(edges)
    is_open = [False] * len(edges)
    opened: list[int] = []
    found: list[list[int]] = []
    count = 0
    for root in range(len(edges)):
        if index[root] >= 0:
            continue
        path = [(root, 0)]
        while path:
            node, step = path.pop()
            if step == 0:
                index[node] = low[node] = count
                count += 1
                opened.append(node)
                is_open[node] = True
            if step < len(edges[node]):
                path.append((node, step + 1))
                target = edges[node][step]
                if index[target] < 0:
                    path.append((target, 0))
                elif is_open[target]:
                    low[node] = min(low[node], index[target])
                continue
            if path:
                above = path[-1][0]
                low[above] = min(low[above], low[node])
            if low[node] == index[node]:
                at = _position(opened, node)
                found.append(opened[at:])
                for member in opened[at:]:
                    is_open[member] = False
                del opened[at:]
    return found


def _position(opened: Sequence[int], node: int) -> int:
    """Place of a node on the stack, from its top."""
    at = len(opened) - 1
    while opened[at] != node:
        at -= 1
    return at

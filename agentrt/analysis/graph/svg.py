"""A graph as one `<svg>` element that loads nothing."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from html import escape

from agentrt.analysis.graph.arrows import SIDE, Box, smooth_way, way_back
from agentrt.analysis.graph.layered_layout import LayeredLayout, Spacing, layered_layout
from agentrt.analysis.graph.layering import Layers, layers
from agentrt.analysis.graph.node_graph import (
    COLOURS,
    CRITICAL_COLOUR,
    GraphNode,
    NodeGraph,
    lines_of,
)

_CHARACTER, _LINE, _PADDING = 7.0, 16, 10  # pixels, of text of 12
_SPACING = Spacing(between=28, layers=44)
_MARGIN, _TITLE = 20, 34
_LEAST_WIDTH, _MOST_CHARACTERS, _NOTE_CHARACTER, _TITLE_CHARACTER = 480, 34, 6.2, 8.2
_PLACE = re.compile(r"\S+:\d+")


def svg(graph: NodeGraph) -> str:
    """The graph, with its notes below."""
    found = layers(graph)
    texts = {node.key: tuple(map(_cut, lines_of(node))) for node in graph.nodes}
    sizes = {
        key: (_CHARACTER * max(map(len, lines)) + 2 * _PADDING, _LINE * len(lines) + _PADDING)
        for key, lines in texts.items()
    }
    ahead = [(edge.source, edge.target) for edge in graph.edges]
    ahead = [ends for ends in dict.fromkeys(ahead) if ends not in found.back]
    placed = layered_layout(found.rows, ahead, sizes, _SPACING)
    boxes = {key: Box(x, y + _TITLE, *sizes[key]) for key, (x, y) in placed.boxes.items()}
    width, height = placed.width, placed.height + _TITLE + _MARGIN + _LINE
    title = _MARGIN + _TITLE_CHARACTER * len(graph.title)
    full_width = max(width + SIDE, title, _LEAST_WIDTH)
    most = int((full_width - _MARGIN) / _NOTE_CHARACTER)
    notes = [line for note in graph.notes for line in textwrap.wrap(note, most)]
    full_height = height + _LINE * len(notes) + _MARGIN
    body = [f'<text x="0" y="22" font-size="15">{escape(graph.title)}</text>', *_markers()]
    body += _arrows(graph, found, placed, boxes)
    for node in graph.nodes:
        body += _drawn(node, boxes[node.key], texts[node.key])
    for at, line in enumerate(notes):
        place = f'x="0" y="{height + _LINE * at:.0f}"'
        body.append(f'<text {place} fill="#666" font-size="11">{escape(line)}</text>')
    size = f'width="{full_width + SIDE:.0f}" height="{full_height:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="-{SIDE} 0 {full_width + SIDE:.0f} {full_height:.0f}" {size} '
        f'font-family="system-ui,sans-serif" font-size="12">'
        f'<path d="M-{SIDE} 0h{full_width + SIDE:.0f}v{full_height:.0f}H-{SIDE}z" fill="#fff"/>'
        f"{''.join(body)}</svg>\n"
    )


def _drawn(node: GraphNode, box: Box, lines: tuple[str, ...]) -> Iterator[str]:
    top = box.y - box.height / 2
    border = (
        f'stroke="{CRITICAL_COLOUR}" stroke-width="2.5"' if node.is_critical else 'stroke="#666"'
    )
    dashes = ' stroke-dasharray="5 4"' if node.is_maybe else ""
    radius = box.height / 2 if node.shape == "end" else 8 if node.shape == "ask" else 2
    shape = f'width="{box.width:.1f}" height="{box.height:.1f}" rx="{radius:.1f}"'
    style = f'fill="{COLOURS[node.shape]}" {border}{dashes}'
    if node.is_many:
        yield f'<rect x="{box.left + 4:.1f}" y="{top + 4:.1f}" {shape} {style}/>'
    yield f'<rect x="{box.left:.1f}" y="{top:.1f}" {shape} {style}/>'
    for at, line in enumerate(lines):
        weight = ' font-weight="bold"' if at == 0 else ""
        y = top + _PADDING / 2 + 12 + _LINE * at
        place = f'x="{box.x:.1f}" y="{y:.1f}" text-anchor="middle"{weight}'
        yield f"<text {place}>{escape(line)}</text>"


def _arrows(
    graph: NodeGraph, found: Layers, placed: LayeredLayout, boxes: Mapping[str, Box]
) -> Iterator[str]:
    layer_of = {key: at for at, row in enumerate(found.rows) for key in row}
    for edge in graph.edges:
        points = placed.ways.get((edge.source, edge.target))
        if points is not None:
            path = smooth_way([(x, y + _TITLE) for x, y in points])
        else:
            last, first = layer_of[edge.source], layer_of[edge.target]
            between = [boxes[key] for row in found.rows[first : last + 1] for key in row]
            path = way_back(boxes[edge.source], boxes[edge.target], between)
        colour, marker = (CRITICAL_COLOUR, "b") if edge.is_critical else ("#666", "a")
        width = 2.5 if edge.is_critical else 1.2
        dashes = "" if edge.how == "value" else ' stroke-dasharray="4 3"'
        yield (
            f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dashes} '
            f'marker-end="url(#{marker})"><title>{edge.how}</title></path>'
        )


def _markers() -> Iterator[str]:
    for name, colour in (("a", "#666"), ("b", CRITICAL_COLOUR)):
        yield (
            f'<defs><marker id="{name}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
            f'markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
            f'<path d="M0 0L8 4L0 8z" fill="{colour}"/></marker></defs>'
        )


def _cut(line: str) -> str:
    """A line of bounded length; of a `file:line` its end is kept."""
    if len(line) <= _MOST_CHARACTERS:
        return line
    if _PLACE.fullmatch(line):
        return "…" + line[1 - _MOST_CHARACTERS :]
    return line[: _MOST_CHARACTERS - 1] + "…"

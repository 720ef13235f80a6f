"""A graph as one `<svg>` element that loads nothing."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from html import escape

from agentrt.analysis.graph.layout import layers
from agentrt.analysis.graph.node_graph import (
    COLOURS,
    CRITICAL_COLOUR,
    GraphEdge,
    GraphNode,
    NodeGraph,
    lines_of,
)
from agentrt.base.record import record

_CHARACTER, _LINE, _PADDING = 7.0, 16, 10  # pixels, of text of 12
_ACROSS, _DOWN, _MARGIN, _TITLE = 28, 44, 20, 34
_LEAST_WIDTH, _MOST_CHARACTERS, _NOTE_CHARACTERS = 480, 34, 90


@record
class _Box:
    """A placed node, by its middle; `lines` is its text."""

    node: GraphNode
    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...]


def svg(graph: NodeGraph) -> str:
    """The graph, with its notes below."""
    placed = layers(graph)
    boxes, width, height = _boxes(graph, placed.rows)
    notes = [line for note in graph.notes for line in textwrap.wrap(note, _NOTE_CHARACTERS)]
    has_back = bool(placed.back)
    full_width = max(width + (2 * _ACROSS if has_back else 0), _LEAST_WIDTH)
    full_height = height + _LINE * len(notes) + _MARGIN
    body = [f'<text x="{_MARGIN}" y="22" font-size="15">{escape(graph.title)}</text>', *_markers()]
    for edge in graph.edges:
        is_back = (edge.source, edge.target) in placed.back
        body.append(_arrow(edge, boxes, width if is_back else None))
    for box in boxes.values():
        body += _drawn(box)
    body += [
        f'<text x="{_MARGIN}" y="{height + _LINE * at}" fill="#666" font-size="11">'
        f"{escape(line)}</text>"
        for at, line in enumerate(notes)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full_width:.0f} {full_height:.0f}" '
        f'width="{full_width:.0f}" height="{full_height:.0f}" '
        f'font-family="system-ui,sans-serif" font-size="12">'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(body)}</svg>\n'
    )


def _boxes(graph: NodeGraph, rows: list[list[str]]) -> tuple[Mapping[str, _Box], float, float]:
    """Boxes by key, and the width and height that they take."""
    nodes = {node.key: node for node in graph.nodes}
    text = {key: tuple(map(_cut, lines_of(node))) for key, node in nodes.items()}
    wide = {key: _CHARACTER * max(map(len, lines)) + 2 * _PADDING for key, lines in text.items()}
    tall = {key: _LINE * len(lines) + _PADDING for key, lines in text.items()}
    lengths = [sum(wide[key] + _ACROSS for key in row) - _ACROSS for row in rows]
    width = max(lengths, default=0.0) + 2 * _MARGIN
    found: dict[str, _Box] = {}
    y = float(_TITLE)
    for row, length in zip(rows, lengths, strict=True):
        row_height = max(tall[key] for key in row)
        x = (width - length) / 2
        for key in row:
            middle = y + row_height / 2
            box = _Box(nodes[key], x + wide[key] / 2, middle, wide[key], tall[key], text[key])
            found[key] = box
            x += wide[key] + _ACROSS
        y += row_height + _DOWN
    return found, width, y - _DOWN + _MARGIN + _LINE


def _drawn(box: _Box) -> Iterator[str]:
    node = box.node
    left, top = box.x - box.width / 2, box.y - box.height / 2
    border = (
        f'stroke="{CRITICAL_COLOUR}" stroke-width="2.5"' if node.is_critical else 'stroke="#666"'
    )
    dashes = ' stroke-dasharray="5 4"' if node.is_maybe else ""
    radius = box.height / 2 if node.shape == "end" else 8 if node.shape == "ask" else 2
    shape = f'width="{box.width:.1f}" height="{box.height:.1f}" rx="{radius:.1f}"'
    style = f'fill="{COLOURS[node.shape]}" {border}{dashes}'
    if node.is_many:
        yield f'<rect x="{left + 4:.1f}" y="{top + 4:.1f}" {shape} {style}/>'
    yield f'<rect x="{left:.1f}" y="{top:.1f}" {shape} {style}/>'
    for at, line in enumerate(box.lines):
        weight = ' font-weight="bold"' if at == 0 else ""
        y = top + _PADDING / 2 + 12 + _LINE * at
        yield (
            f'<text x="{box.x:.1f}" y="{y:.1f}" text-anchor="middle"{weight}>{escape(line)}</text>'
        )


def _arrow(edge: GraphEdge, boxes: Mapping[str, _Box], around: float | None) -> str:
    """An arrow down to the next layers, or around the right side (at x = `around`) up again."""
    source, target = boxes[edge.source], boxes[edge.target]
    if around is not None:
        x1, y1 = source.x + source.width / 2, source.y
        x2, y2 = target.x + target.width / 2, target.y
        path = f"M{x1:.1f} {y1:.1f}C{around + _ACROSS:.1f} {y1:.1f} {around + _ACROSS:.1f} {y2:.1f}"
        path += f" {x2:.1f} {y2:.1f}"
    else:
        x1, y1 = source.x, source.y + source.height / 2
        x2, y2 = target.x, target.y - target.height / 2
        bend = max(16.0, (y2 - y1) / 2)
        path = f"M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f}"
        path += f" {x2:.1f} {y2:.1f}"
    colour, marker = (CRITICAL_COLOUR, "b") if edge.is_critical else ("#666", "a")
    width = 2.5 if edge.is_critical else 1.2
    dashes = "" if edge.how == "value" else ' stroke-dasharray="4 3"'
    return (
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
    return line if len(line) <= _MOST_CHARACTERS else line[: _MOST_CHARACTERS - 1] + "…"

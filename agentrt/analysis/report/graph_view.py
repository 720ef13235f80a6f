"""The program's graph as one SVG picture."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from agentrt.analysis.graph.arrows import smooth_way
from agentrt.analysis.graph.layered_layout import Point
from agentrt.analysis.html_page import section
from agentrt.analysis.report.graph_layout import HEIGHT, WIDTH, GraphLayout, layouts
from agentrt.analysis.report.program_graph import GraphBox, ProgramGraph
from agentrt.analysis.report.words import counted, duration, shortened, times

_KIND_WORDS = {"generate": "generation", "tool": "tool", "ask": "question"}
_MOST_CHARACTERS = 18  # of a name in a box
_BEND = 40  # of a line that leads back; it reaches three quarters as far


def graph_section(graph: ProgramGraph) -> str:
    """Picture of the graph, and the loops that it does not draw."""
    if not graph.boxes:
        return ""
    wide, narrow = layouts(graph)
    note = "Arrows lead from a node to what waited for it. ◆ and heavy lines are the critical path."
    if any(box.count > 1 for box in graph.boxes):
        note += " A box with a number stands for that many nodes."
    if any(edge.is_back for edge in graph.edges):
        note += " Dashed arrows lead back: the program repeats."
    pictures = [_framed(graph, wide, "wide" if wide is narrow else "wide roomy")]
    if wide is not narrow:
        pictures.append(_framed(graph, narrow, "wide slim"))
    return section(
        "graph",
        "Program graph",
        f'<p class="note">{note}</p>',
        *pictures,
    )


def _framed(graph: ProgramGraph, placed: GraphLayout, kind: str) -> str:
    return f'<div class="{kind}" tabindex="0">{picture(graph, placed)}</div>'


def picture(graph: ProgramGraph, placed: GraphLayout) -> str:
    """The graph as one `<svg>` element."""
    weak: list[str] = []
    strong: list[str] = []
    for edge in graph.edges:
        points = placed.edges.get((edge.source, edge.target))
        if points is not None:
            (strong if edge.critical else weak).append(_edge(points, placed.across, edge.critical))
        elif edge.is_back:
            ends = placed.boxes[edge.source], placed.boxes[edge.target]
            weak.append(_loop(*ends, placed.across, edge.critical))
    boxes = [_box(box, placed.boxes[box.key]) for box in graph.boxes]
    spoken = f"Graph of {counted(sum(box.count for box in graph.boxes), 'node')}"
    return (
        f'<svg class="graph" width="{placed.width:.0f}" height="{placed.height:.0f}" '
        f'viewBox="0 0 {placed.width:.0f} {placed.height:.0f}" role="img" aria-label="{spoken}">'
        f"{''.join(weak)}{''.join(strong)}{''.join(boxes)}</svg>"
    )


def _edge(points: Sequence[Point], across: bool, critical: bool) -> str:
    """A smooth line through the points, with a small head at its end."""
    head = "m-5 -4l5 4l-5 4" if across else "m-4 -5l4 5l4 -5"
    kind = "edge critical" if critical else "edge"
    return f'<path class="{kind}" d="{smooth_way(points, across=across)}{head}"/>'


def _loop(source: Point, target: Point, across: bool, critical: bool) -> str:
    """A dashed line from a box back to one before it, or to itself, around the boxes."""
    (x, y), (to_x, to_y) = source, target
    if across:
        x, y, to_x, to_y = x + WIDTH * 0.62, y + HEIGHT, to_x + WIDTH * 0.38, to_y + HEIGHT
        out = max(y, to_y) + _BEND
        drawn = f"M{x:.1f} {y:.1f}C{x:.1f} {out:.1f} {to_x:.1f} {out:.1f} {to_x:.1f} {to_y:.1f}"
        head = "m-4 5l4 -5l4 5"
    else:
        x, y, to_x, to_y = x + WIDTH, y + HEIGHT * 0.62, to_x + WIDTH, to_y + HEIGHT * 0.38
        out = max(x, to_x) + _BEND
        drawn = f"M{x:.1f} {y:.1f}C{out:.1f} {y:.1f} {out:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
        head = "m5 -4l-5 4l5 4"
    kind = "edge critical" if critical else "edge"
    end = f"M{to_x:.1f} {to_y:.1f}{head}"
    return f'<path class="{kind} back" d="{drawn}"/><path class="{kind}" d="{end}"/>'


def _box(box: GraphBox, at: Point) -> str:
    x, y = at
    critical = box.on_path_s > 0.0
    kind = f"box k-{box.kind}" + (" critical" if critical else "")
    number = times(box.count)
    mark = "◆ " if critical else ""
    name = shortened(box.name, _MOST_CHARACTERS - len(mark) - len(number)) + number
    ended = box.failed or box.cancelled
    word = "failed" if box.failed else "cancelled"
    about = f"{_KIND_WORDS.get(box.kind, box.kind)} · {duration(box.work_s)}"
    if ended:
        about = f"{word} · {duration(box.work_s)}" if box.count == 1 else f"{ended} {word}"
    return (
        f'<g class="{kind}"><title>{escape(_title(box))}</title>'
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{WIDTH}" height="{HEIGHT}" rx="7"/>'
        f'<path class="stripe" d="M{x + 4:.1f} {y + 8:.1f}v{HEIGHT - 16}"/>'
        f'<text x="{x + 13:.1f}" y="{y + 19:.1f}">{mark}{escape(name)}</text>'
        f'<text class="about" x="{x + 13:.1f}" y="{y + 36:.1f}">{escape(about)}</text></g>'
    )


def _title(box: GraphBox) -> str:
    words = [f"{box.name}: {counted(box.count, 'node')}, {duration(box.work_s)} of work"]
    words.append(f"{duration(box.on_path_s)} on the critical path")
    words += [f"{box.failed} failed"] if box.failed else []
    words += [f"{box.cancelled} cancelled"] if box.cancelled else []
    return ", ".join(words)

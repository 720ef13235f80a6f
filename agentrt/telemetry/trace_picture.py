"""A run as an HTML picture: a bar a node over time, its stages in colours, and a table below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from agentrt.analysis.chart_axis import Axis, axis, tick_label
from agentrt.analysis.html_page import heading, page, paragraphs, table_of
from agentrt.analysis.plot import COLOURS
from agentrt.telemetry import names
from agentrt.telemetry.node_figures import NodeFigures, RunFigures, node_figures, run_figures
from agentrt.telemetry.span import Span, Trace
from agentrt.telemetry.waits import TraceNodes

_STAGES = {
    "engine.queue": ("queue", COLOURS[7]),
    "engine.kv_reload": ("KV reload", COLOURS[3]),
    "engine.constraint": ("grammar", COLOURS[4]),
    "engine.prefill": ("prefill", COLOURS[5]),
    "engine.decode": ("decode", COLOURS[0]),
}
_KINDS = {"tool": COLOURS[2], "ask": COLOURS[3], "generate": "#c9d7e3", "program": "#e4e4e4"}
_PATH_COLOUR = COLOURS[1]
_NAMES, _RIGHT, _TOP, _ROW, _BAR = 250, 20, 26, 20, 12  # pixels
_WIDTH = 980
_MOST_CHARACTERS = 38


def trace_picture(trace: Trace) -> str:
    """One HTML page that loads nothing."""
    nodes = TraceNodes(trace)
    run = run_figures(trace.trace_id, nodes)
    rows = [node_figures(nodes, span) for span in nodes.nodes.values()]
    parts = [paragraphs(*_about(run)), _svg(trace, nodes, rows), _legend(rows, trace)]
    parts += [heading("Nodes"), _table(rows)]
    return page(f"{run.program or trace.name}, run {run.run_id}", parts)


def _about(run: RunFigures) -> Iterator[str]:
    split = ", ".join(f"{label} {ms:.1f}" for label, ms in run.split_ms.items() if ms >= 0.05)
    yield f"From submit to result {run.compound_ms:.1f} ms" + (f": {split} ms." if split else ".")
    if run.error is not None:
        yield f"It failed: {run.error}"


def _svg(trace: Trace, nodes: TraceNodes, rows: list[NodeFigures]) -> str:
    length_ms = max([nodes.end_ms(span) for span in nodes.nodes.values()], default=1.0)
    height = _TOP + _ROW * len(rows) + 6
    scale = axis([0.0, length_ms], _NAMES, _WIDTH - _RIGHT, zero=True)
    parts = [*_grid(scale, height)]
    stages: dict[object, list[Span]] = {}
    for span in trace.spans:
        if span.name in _STAGES:
            stages.setdefault(span.attributes.get(names.NODE_ID), []).append(span)
    for number, row in enumerate(rows):
        parts += _bar(nodes, row, stages.get(row.node_id, ()), scale, _TOP + number * _ROW)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" font-family="system-ui,sans-serif" font-size="12">'
        f"{''.join(parts)}</svg>"
    )


def _grid(scale: Axis, height: int) -> Iterator[str]:
    for tick in scale.ticks():
        x = scale.place(tick)
        yield f'<path d="M{x:.1f} {_TOP - 6}V{height}" stroke="#e4e4e4"/>'
        yield f'<text x="{x:.1f}" y="14" text-anchor="middle" fill="#666">{tick_label(tick)}</text>'
    yield '<text x="4" y="14" fill="#666">ms since the submit</text>'


def _bar(
    nodes: TraceNodes, row: NodeFigures, stages: Sequence[Span], scale: Axis, y: int
) -> Iterator[str]:
    span = nodes.nodes[row.node_id]
    indent = 4 + 10 * row.node_id.count("/")
    name = row.node_id.rpartition("/")[2]
    shown = name if len(name) <= _MOST_CHARACTERS else name[: _MOST_CHARACTERS - 1] + "…"
    weight = ' font-weight="bold"' if row.is_critical else ""
    told = escape(f"{row.node_id}: {row.kind}, {row.figures.took_ms:.1f} ms, {row.site}")
    yield f'<g><title>{told}</title><text x="{indent}" y="{y + 10}"{weight}>{escape(shown)}</text>'
    yield _rectangle(scale, nodes, span, y, _KINDS.get(row.kind, "#ccc"))
    for one in stages:
        yield _rectangle(scale, nodes, one, y, _STAGES[one.name][1])
    if row.is_critical and row.kind != "program":
        left, right = (scale.place(ms) for ms in (nodes.start_ms(span), nodes.end_ms(span)))
        yield f'<path d="M{left:.1f} {y + _BAR + 1.5}H{max(right, left + 1):.1f}"'
        yield f' stroke="{_PATH_COLOUR}" stroke-width="3"/>'
    yield "</g>"


def _rectangle(scale: Axis, nodes: TraceNodes, span: Span, y: int, colour: str) -> str:
    left, right = scale.place(nodes.start_ms(span)), scale.place(nodes.end_ms(span))
    width = max(1.0, right - left)
    return f'<rect x="{left:.1f}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>'


def _legend(rows: list[NodeFigures], trace: Trace) -> str:
    kinds = {row.kind for row in rows}
    used = {one.name for one in trace.spans}
    found = [(kind, colour) for kind, colour in _KINDS.items() if kind in kinds]
    found += [stage for name, stage in _STAGES.items() if name in used]
    found.append(("critical path", _PATH_COLOUR))
    return "<p>" + " &nbsp; ".join(_key(name, colour) for name, colour in found) + "</p>"


def _key(name: str, colour: str) -> str:
    square = f'<rect width="12" height="12" fill="{colour}"/>'
    style = 'style="display:inline;margin:0" width="12" height="12"'
    return f"<svg {style}>{square}</svg> {escape(name)}"


def _table(rows: list[NodeFigures]) -> str:
    return table_of(
        rows,
        {
            "node": lambda one: one.node_id,
            "kind": lambda one: one.kind,
            "call site": lambda one: one.site,
            "start ms": lambda one: f"{one.start_ms:.1f}",
            "took ms": lambda one: f"{one.figures.took_ms:.1f}",
            "waits ms": lambda one: ", ".join(f"{k} {ms:.1f}" for k, ms in one.wait_ms.items()),
            "in": lambda one: _count(one.figures.input_tokens),
            "cached": lambda one: _count(one.figures.cached_tokens),
            "out": lambda one: _count(one.figures.output_tokens),
            "failed": lambda one: one.error or "",
        },
    )


def _count(tokens: int) -> str:
    return str(tokens) if tokens else ""

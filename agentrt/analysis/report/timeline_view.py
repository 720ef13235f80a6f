"""The timeline as rows of HTML: text stays text, and only the bars scale with the page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from agentrt.analysis.chart_axis import Axis
from agentrt.analysis.html_page import section
from agentrt.analysis.report.bars import Bar
from agentrt.analysis.report.timeline import COLUMNS, Lane, activity, lanes
from agentrt.analysis.report.words import (
    LEAST_S,
    WAITS,
    counted,
    duration,
    shortened,
    tick_text,
    times,
)
from agentrt.analysis.run_record import RunRecord
from agentrt.analysis.stage import LABELS, Label, Stage
from agentrt.base.ids import NodeId

_UNITS = 1000  # width of a bar's picture in its own units, whatever it is on the page
_TALL = 16
_LEAST = 2  # units of the shortest stage that is drawn
_MOST_STAGES = 150  # drawn one by one
_LAST_TICK = 0.93  # of the axis; a later mark would run out of the page


def timeline_section(record: RunRecord, found: Sequence[Bar], path_stages: Sequence[Stage]) -> str:
    """Lanes of all nodes under one axis, the critical path as a lane of its own on top."""
    made = lanes(found)
    rows = [_path_row(record, path_stages)]
    rows += [_lane_row(lane, record) for lane in made]
    stages = [stage for bar in found for stage in bar.stages] + list(path_stages)
    used = {stage.label for stage in stages if stage.length_s >= LEAST_S}
    note = (
        "A bar begins at the last input of its node. Thick is work, thin is waiting. "
        "◆ marks the critical path."
    )
    if any(lane.is_folded for lane in made):
        note += " A lane of several nodes is as tall as many are at work at once; open it for some."
    return section(
        "timeline",
        "Timeline",
        f'<p class="note">{note}</p>',
        f'<ul class="key">{"".join(_key(label) for label in LABELS if label in used)}</ul>',
        f'<div class="gantt" style="{_grid(record, found)}">',
        _axis_row(record),
        f"<ol>{''.join(rows)}</ol></div>",
    )


def _ticks(record: RunRecord) -> list[tuple[float, float]]:
    """Marked instants since submit, with their places as shares of the axis."""
    if record.compound_s <= 0.0:
        return []
    on = Axis(0.0, record.compound_s, 0.0, 1.0)
    return [(tick, on.place(tick)) for tick in on.ticks()]


def _grid(record: RunRecord, found: Sequence[Bar]) -> str:
    """Distance of the marks, and more room behind the bars if some nodes did not end well."""
    ticks = _ticks(record)
    room = "" if all(bar.outcome in {"ok", ""} for bar in found) else ";--took:9rem"
    return f"--tick:{100 * ticks[1][1] if len(ticks) > 1 else 100:.4f}%{room}"


def _axis_row(record: RunRecord) -> str:
    marks = "".join(
        f'<span style="left:{100 * place:.3f}%">{tick_text(tick)}</span>'
        for tick, place in _ticks(record)
        if 0.0 < place <= _LAST_TICK
    )
    return (
        f'<div class="axis" aria-hidden="true"><div><span class="zero">0</span>{marks}</div></div>'
    )


def _key(label: Label) -> str:
    kind = "chip thin" if label in WAITS else "chip"
    return f'<li><span class="{kind} b-{label}"></span>{label}</li>'


def _path_row(record: RunRecord, path_stages: Sequence[Stage]) -> str:
    joined: list[Stage] = []
    for stage in path_stages:
        before = joined[-1] if joined else None
        if (
            before is not None
            and before.label == stage.label
            and not (before.shares or stage.shares)
        ):
            joined[-1] = Stage(stage.label, before.started_at_s, stage.ended_at_s)
        else:
            joined.append(stage)
    bar = Bar(NodeId(""), "", "", 0.0, record.compound_s, tuple(joined), True, "")
    return _row("critical path", [bar], record, "all", f"{duration(record.compound_s)}")


def _lane_row(lane: Lane, record: RunRecord) -> str:
    if not lane.is_folded:
        (bar,) = lane.bars
        return _row(lane.name, lane.bars, record, "", _took(bar))
    work_s = sum(bar.end_s - bar.start_s for bar in lane.bars)
    chosen = lane.chosen()
    rows = [_row(bar.name, [bar], record, "inner", _took(bar)) for bar in chosen]
    left = len(lane.bars) - len(chosen)
    more = f'<p class="note">{counted(left, "more node")} like these.</p>' if left else ""
    head = _parts(lane.name, lane.bars, record, f"{duration(work_s)} in all")
    kind = "row critical" if lane.is_critical else "row"
    return (
        f'<li class="folded"><details><summary class="{kind}">{head}</summary>'
        f"<ol>{''.join(rows)}</ol>{more}</details></li>"
    )


def _took(bar: Bar) -> str:
    took = duration(bar.end_s - bar.start_s)
    return took if bar.outcome in {"ok", ""} else f"{took}, {bar.outcome}"


def _row(name: str, shown: Sequence[Bar], record: RunRecord, kind: str, took: str) -> str:
    kinds = ["row", kind, "critical" if any(bar.critical for bar in shown) else ""]
    classes = " ".join(one for one in kinds if one)
    return f'<li class="{classes}">{_parts(name, shown, record, took)}</li>'


def _parts(name: str, shown: Sequence[Bar], record: RunRecord, took: str) -> str:
    """Name, picture and duration of a row."""
    outcome = next((bar.outcome for bar in shown if bar.outcome not in {"ok", ""}), "")
    ended = f' class="took {outcome}"' if outcome else ' class="took"'
    is_simple = len(shown) == 1 and len(shown[0].stages) <= _MOST_STAGES
    picture = _bars(shown[0], record) if is_simple else _profile(shown, record)
    spoken = _spoken(name + times(len(shown)), shown)
    return (
        f"{_name(name, shown)}"
        f'<svg viewBox="0 0 {_UNITS} {_TALL}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(spoken)}">{picture}</svg>'
        f"<span{ended}>{escape(took)}</span>"
    )


def _name(name: str, shown: Sequence[Bar]) -> str:
    """The name of a row; what follows it stays if the name is too long for the row."""
    program, slash, own = name.rpartition("/")
    own, sign, number = own.rpartition("#") if "#" in own else (own, "", "")
    above = f"<small>{escape(shortened(program, 40))}{slash}</small>" if program else ""
    behind = times(len(shown)) or f"{sign}{number}"
    mark = "◆" if any(bar.critical for bar in shown) else ""
    return (
        f'<span class="name" title="{escape(name)}"><i>{mark}</i>'
        f"<span>{above}{escape(shortened(own, 60))}</span><small>{escape(behind)}</small></span>"
    )


def _bars(bar: Bar, record: RunRecord) -> str:
    per_s = _UNITS / record.compound_s if record.compound_s > 0.0 else 0.0
    made = []
    for stage in bar.stages:
        if stage.length_s < LEAST_S:
            continue
        left = (stage.started_at_s - record.started_at_s) * per_s
        width = max(_LEAST, stage.length_s * per_s)
        thin = stage.label in WAITS
        y, tall = (_TALL / 2 - 2, 4) if thin else (1, _TALL - 2)
        made.append(
            f'<rect class="s-{stage.label}" x="{min(left, _UNITS - _LEAST):.1f}" y="{y:g}" '
            f'width="{width:.1f}" height="{tall}">'
            f"<title>{_stage_title(stage, record)}</title></rect>"
        )
    return "".join(made)


def _stage_title(stage: Stage, record: RunRecord) -> str:
    parts = ", ".join(f"{label} {duration(seconds)}" for label, seconds in stage.shares)
    at = duration(stage.started_at_s - record.started_at_s)
    of = f" ({parts})" if parts else ""
    return escape(f"{stage.label} {duration(stage.length_s)} from {at}{of}")


def _profile(shown: Sequence[Bar], record: RunRecord) -> str:
    """One path a label, as tall as the number of nodes at work."""
    if record.compound_s <= 0.0:
        return ""
    columns = activity(shown, record.started_at_s, record.compound_s)
    most = max((one.nodes for one in columns if one is not None), default=1.0)
    width = _UNITS / COLUMNS
    paths: dict[Label, str] = {}
    for at, column in enumerate(columns):
        if column is None:
            continue
        tall = max(1.5, (_TALL - 2) * column.nodes / most)
        piece = f"M{at * width:.1f} {_TALL - 1}v{-tall:.1f}h{width:.1f}v{tall:.1f}z"
        paths[column.label] = paths.get(column.label, "") + piece
    return "".join(f'<path class="s-{label}" d="{piece}"/>' for label, piece in paths.items())


def _spoken(name: str, shown: Sequence[Bar]) -> str:
    """The row in words."""
    if len(shown) > 1:
        first_s, last_s = min(bar.start_s for bar in shown), max(bar.end_s for bar in shown)
        return f"{name}: between {duration(first_s)} and {duration(last_s)}"
    (bar,) = shown
    parts = ", ".join(
        f"{stage.label} {duration(stage.length_s)}" for stage in bar.stages[:_MOST_SPOKEN]
    )
    return f"{name}: from {duration(bar.start_s)}, {parts or 'no work'}"


_MOST_SPOKEN = 12

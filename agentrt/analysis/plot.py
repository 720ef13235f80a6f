"""Small plots as SVG text: lines, cumulative shares, bars with intervals.

Each plot is one element that loads nothing and runs nothing, so a page of them can be mailed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from agentrt.analysis.chart_axis import Axis, axis, tick_label
from agentrt.analysis.statistics import Interval
from agentrt.base.record import record

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a8a8a")
"""Colours that colour-blind readers can distinguish (Okabe and Ito)."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 12, 30, 44
_LINES_SIZE, _BARS_SIZE = (560, 320), (900, 340)
"""Width and height of a plot in pixels, without the legend below it."""

_ROW = 15  # height of a line of the legend


@record
class PlotLine:
    """Points joined in order.

    Attributes:
        name: Name in the legend.
        points: x and y of each point; a point that is not finite breaks the line.
        band: Low and high y at each point, or ().
        dashed: True for a bound or a reference.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float], ...] = ()
    dashed: bool = False


def lines(
    title: str,
    series: Sequence[PlotLine],
    *,
    x: str,
    y: str,
    log_x: bool = False,
    log_y: bool = False,
) -> str:
    """Lines over two axes, as one `<svg>` element.

    Args:
        title: Title above.
        series: Lines; more than there are colours share colours.
        x: Label of the horizontal axis, with its unit.
        y: Label of the vertical axis, with its unit.
        log_x: True for a logarithmic horizontal axis.
        log_y: True for a logarithmic vertical axis.
    """
    width, height = _LINES_SIZE
    across = axis((p[0] for one in series for p in one.points), _LEFT, width - _RIGHT, log=log_x)
    heights = [p[1] for one in series for p in one.points]
    heights += [end for one in series for ends in one.band for end in ends]
    up = axis(heights, height - _BOTTOM, _TOP, log=log_y, zero=not log_y)
    drawn = [_frame(across, up, x, y, _LINES_SIZE)]
    for at, one in enumerate(series):
        drawn.append(_line(one, across, up, COLOURS[at % len(COLOURS)]))
    names = [(one.name, one.dashed) for one in series]
    return _svg(title, drawn, names, _LINES_SIZE)


def cdf(title: str, samples: Mapping[str, Sequence[float]], *, x: str, log_x: bool = False) -> str:
    """The share of samples that are at most x, one staircase a name.

    A sample that is not finite (it never ended) counts but has no position: the staircase ends
    below 1.
    """
    series = [PlotLine(name, _stairs(values)) for name, values in samples.items()]
    return lines(title, series, x=x, y="share", log_x=log_x)


def bars(
    title: str,
    groups: Mapping[str, Mapping[str, Interval]],
    *,
    y: str,
    log_y: bool = False,
    line_at: float | None = None,
) -> str:
    """Groups of bars with their intervals, as one `<svg>` element.

    Args:
        title: Title above.
        groups: Bars by the name of their group and their name in the legend; a bar that is not
            finite is left out.
        y: Label of the vertical axis, with its unit.
        log_y: True for a logarithmic axis; bars then begin at its lowest mark.
        line_at: Value of a dashed line across, such as a target.
    """
    width, height = _BARS_SIZE
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    ends = [end for group in groups.values() for one in group.values() for end in _ends(one)]
    shown = ends if line_at is None else [*ends, line_at]
    up = axis(shown, height - _BOTTOM, _TOP, log=log_y, zero=not log_y)
    room = (width - _LEFT - _RIGHT) / max(1, len(groups))
    thick = room * 0.8 / max(1, len(names))
    drawn = [_frame(None, up, "", y, _BARS_SIZE)]
    for place, (group, columns) in enumerate(groups.items()):
        left = _LEFT + room * (place + 0.1)
        drawn.append(_label(left + room * 0.4, height - _BOTTOM + 14, group, "middle", room))
        for name, one in columns.items():
            at = names.index(name)
            drawn.append(_bar(one, up, left + at * thick, thick, COLOURS[at % len(COLOURS)]))
    if line_at is not None:
        level = up.place(line_at)
        drawn.append(_path([(_LEFT, level), (width - _RIGHT, level)], "#333", dashed=True))
    return _svg(title, drawn, [(name, False) for name in names], _BARS_SIZE)


def _stairs(values: Sequence[float]) -> tuple[tuple[float, float], ...]:
    points: list[tuple[float, float]] = []
    for count, value in enumerate(sorted(v for v in values if math.isfinite(v))):
        points += [(value, count / len(values)), (value, (count + 1) / len(values))]
    return tuple(points)


def _ends(one: Interval) -> tuple[float, ...]:
    return (one.value, one.low, one.high) if math.isfinite(one.value) else ()


def _line(one: PlotLine, across: Axis, up: Axis, colour: str) -> str:
    drawn = ""
    if one.band:
        ends = [(x, *ends) for (x, _), ends in zip(one.points, one.band, strict=True)]
        corners = [(x, high) for x, _, high in ends] + [(x, low) for x, low, _ in reversed(ends)]
        spots = " ".join(f"{across.place(x):.1f},{up.place(y):.1f}" for x, y in corners)
        drawn += f'<polygon points="{spots}" fill="{colour}" fill-opacity="0.15"/>'
    piece: list[tuple[float, float]] = []
    for point in (*one.points, (math.nan, math.nan)):
        if _placed(point[0], across) and _placed(point[1], up):
            piece.append((across.place(point[0]), up.place(point[1])))
            continue
        if piece:
            drawn += _path(piece, colour, dashed=one.dashed)
        piece = []
    return drawn


def _placed(value: float, on: Axis) -> bool:
    return math.isfinite(value) and (value > 0 or not on.log)


def _bar(one: Interval, up: Axis, left: float, thick: float, colour: str) -> str:
    if not _placed(one.value, up):
        return ""
    ground = up.place(up.low if up.log else 0.0)
    top = up.place(one.value)
    drawn = (
        f'<rect x="{left:.1f}" y="{min(top, ground):.1f}" width="{max(thick - 1, 1):.1f}" '
        f'height="{abs(ground - top):.1f}" fill="{colour}"/>'
    )
    if one.low != one.high:
        middle = left + thick / 2
        drawn += _path([(middle, up.place(one.low)), (middle, up.place(one.high))], "#333")
    return drawn


def _path(points: Sequence[tuple[float, float]], colour: str, *, dashed: bool = False) -> str:
    spots = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<polyline points="{spots}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>'


def _label(x: float, y: float, text: str, anchor: str, room: float | None = None) -> str:
    """Text, compressed if it would be wider than its room."""
    wide = len(text) * 6.2
    fit = (
        f' textLength="{room:.0f}" lengthAdjust="spacingAndGlyphs"' if room and wide > room else ""
    )
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{fit}>{escape(text)}</text>'


def _frame(across: Axis | None, up: Axis, x: str, y: str, size: tuple[int, int]) -> str:
    width, height = size
    floor, right = height - _BOTTOM, width - _RIGHT
    drawn = f'<path d="M{_LEFT} {_TOP}V{floor}H{right}" fill="none" stroke="#333"/>'
    for tick in up.ticks():
        level = up.place(tick)
        drawn += f'<path d="M{_LEFT} {level:.1f}H{right}" stroke="#ddd"/>'
        drawn += _label(_LEFT - 5, level + 4, tick_label(tick), "end")
    for tick in across.ticks() if across else ():
        place = across.place(tick) if across else 0.0
        drawn += f'<path d="M{place:.1f} {floor}v4" stroke="#333"/>'
        drawn += _label(place, floor + 16, tick_label(tick), "middle")
    drawn += _label((_LEFT + right) / 2, height - 10, x, "middle")
    turned = f'transform="rotate(-90 13 {(_TOP + floor) / 2:.0f})"'
    middle = f'x="13" y="{(_TOP + floor) / 2:.0f}"'
    return f'{drawn}<text {middle} text-anchor="middle" {turned}>{escape(y)}</text>'


def _svg(
    title: str, drawn: Sequence[str], names: Sequence[tuple[str, bool]], size: tuple[int, int]
) -> str:
    width, height = size
    legend = ""
    for at, (name, dashed) in enumerate(names):
        colour, y = COLOURS[at % len(COLOURS)], height + 4 + _ROW * at
        legend += _path([(_LEFT, y), (_LEFT + 22, y)], colour, dashed=dashed)
        legend += _label(_LEFT + 28, y + 4, name, "start")
    tall = height + _ROW * len(names) + 6
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{tall}" '
        f'viewBox="0 0 {width} {tall}" font-family="system-ui,sans-serif" font-size="11">'
        f'<rect width="{width}" height="{tall}" fill="#fff"/>'
        f'<text x="{_LEFT}" y="18" font-size="14">{escape(title)}</text>'
        f"{''.join(drawn)}{legend}</svg>"
    )

"""Plots are well-formed pictures whose places follow the values."""

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentrt.analysis.chart_axis import axis, tick_label
from agentrt.analysis.html_page import page, table
from agentrt.analysis.plot import PlotLine, bars, cdf, lines
from agentrt.analysis.statistics import Interval

SVG = "{http://www.w3.org/2000/svg}"


def drawn(svg: str, kind: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter(SVG + kind))


def paths(svg: str) -> list[list[tuple[float, float]]]:
    """All polylines but those of the legend."""
    found = []
    for one in drawn(svg, "polyline"):
        numbers = [float(number) for number in re.split("[ ,]", one.attrib["points"])]
        found.append(list(zip(numbers[::2], numbers[1::2], strict=True)))
    return found


def test_higher_values_stand_higher_and_later_ones_to_the_right() -> None:
    svg = lines("t", [PlotLine("a", ((1, 10), (2, 30), (3, 20)))], x="s", y="ms")
    (first, second, third), *_ = paths(svg)
    assert first[0] < second[0] < third[0]
    assert second[1] < third[1] < first[1]  # pixels count downwards


def test_a_line_is_broken_where_a_value_is_missing() -> None:
    points = ((1.0, 1.0), (2.0, math.inf), (3.0, 2.0), (4.0, 3.0))
    svg = lines("t", [PlotLine("a", points)], x="", y="")
    assert [len(path) for path in paths(svg)] == [1, 2, 2]


def test_a_logarithmic_axis_has_equal_ratios_at_equal_distances() -> None:
    on = axis([1, 1000], 0, 300, log=True)
    assert [on.place(value) for value in (1, 10, 100, 1000)] == pytest.approx([0, 100, 200, 300])
    assert on.ticks() == (1, 10, 100, 1000)


@example(values=[5e-324], zero=False)
@example(values=[0.0], zero=True)
@settings(derandomize=True, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8), st.booleans())
def test_every_value_has_its_place_between_the_ends(values: list[float], zero: bool) -> None:
    on = axis(values, 100, 0, zero=zero)
    assert on.low <= min(values)
    assert max(values) <= on.high
    assert all(0 <= on.place(value) <= 100 for value in values)
    assert 2 <= len(on.ticks()) <= 12
    assert all(on.low <= tick + 1e-6 and tick - 1e-6 <= on.high for tick in on.ticks())


@settings(derandomize=True, deadline=None)
@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=8))
def test_so_has_every_value_of_a_logarithmic_axis(values: list[float]) -> None:
    on = axis(values, 0, 100, log=True)
    assert all(0 <= on.place(value) <= 100 for value in values)
    assert on.low <= min(values) * (1 + 1e-6)
    assert max(values) <= on.high * (1 + 1e-6)


def test_a_cumulative_share_ends_at_the_share_that_ended() -> None:
    svg = cdf("t", {"done": [1, 2, 3, 4], "half": [1, 2, math.inf, math.inf]}, x="s")
    done, half = paths(svg)[:2]
    top, floor = min(y for _, y in done), max(y for _, y in done)
    assert len(done) == 8
    assert len(half) == 4
    assert min(y for _, y in half) == pytest.approx((top + floor) / 2, abs=0.2)


def test_bars_have_heights_and_intervals() -> None:
    groups = {
        "chat": {"ours": Interval(1.0, 0.9, 1.2), "peer": Interval(2.0, 2.0, 2.0)},
        "vote": {"ours": Interval(math.inf, math.inf, math.inf)},
    }
    svg = bars("t", groups, y="s", line_at=1.05)
    shown = drawn(svg, "rect")[1:]  # the first is the ground
    heights = [float(one.attrib["height"]) for one in shown]
    assert heights == pytest.approx([heights[0], 2 * heights[0]], abs=0.2)
    whiskers = [path for path in paths(svg) if path[0][0] == path[1][0]]
    assert len(whiskers) == 1
    texts = [one.text for one in drawn(svg, "text")]
    assert {"chat", "vote", "ours", "peer"} <= set(texts)


def test_what_is_given_stays_text() -> None:
    svg = lines("<b>&", [PlotLine("</svg>", ((0, 0),))], x='"', y="<")
    texts = [one.text for one in drawn(svg, "text")]
    assert {"<b>&", "</svg>", '"', "<"} <= set(texts)
    assert "<b>" not in page("<b>", [table(["<i>"], [["<u>"]])]).replace("<body>", "")


def test_marks_are_short() -> None:
    assert [tick_label(value) for value in (0.0, 1200.0, 3e9, 0.125)] == [
        "0",
        "1.2k",
        "3G",
        "0.125",
    ]

"""The page of a load study: targets, a table at the rate of the comparison, and curves."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from agentrt.analysis.html_page import heading, page, paragraphs, table_of
from agentrt.analysis.plot import PlotLine, lines
from agentrt.analysis.target import target_table
from agentrt.lab.sim.load import BASELINE, FIGURES, GOOD_SHARE, SLO_SLOWDOWN, LoadCurves
from agentrt.lab.sim.load_targets import BOUND, load_targets

_CURVES = {
    "mean_slowdown": ("Mean slowdown by rate", "slowdown", True),
    "p99_slowdown": ("99th percentile of slowdowns by rate", "slowdown", True),
    "mean_latency_s": ("Mean latency by rate", "seconds", True),
    "goodput": (
        f"Goodput by rate: programs within {SLO_SLOWDOWN:g} times alone",
        "programs a second",
        False,
    ),
}


def load_page(found: LoadCurves, about: Mapping[str, Any]) -> str:
    """The page of a load study."""
    (baseline,) = (one for one in found.tried if one.rate == found.rate)
    draws = len(found.points[next(iter(found.points))][found.rate])
    words = (
        f"{found.kv_tokens} tokens of KV memory. At {found.rate:.3g} programs a second {BASELINE} "
        f"has a mean slowdown of {baseline.slowdown:.2f} over {draws} draws. Slowdown is by the "
        "same program alone, in the same simulator. All arms serve the same programs at the same "
        "instants; intervals are 95 % over draws."
    )
    setting = f"<pre>{escape(json.dumps(dict(about), indent=1, default=str))}</pre>"
    curves = [_curve(found, name) for name in _CURVES]
    parts = [paragraphs(words), target_table(load_targets(found)), _arms(found), *curves]
    return page("Policies under load", [*parts, heading("About"), setting])


def _arms(found: LoadCurves) -> str:
    def column(figure: str) -> Callable[[str], str]:
        return lambda arm: f"{found.at_rate(arm, figure):.2f}"

    columns: dict[str, Callable[[str], str]] = {"arm": lambda arm: arm}
    columns |= {name.removesuffix("_s").replace("_", " "): column(name) for name in FIGURES}
    columns[f"rate of {GOOD_SHARE:.0%}"] = lambda arm: f"{found.capacity(arm):.3f}"
    return table_of(found.points, columns)


def _curve(found: LoadCurves, figure: str) -> str:
    title, unit, log = _CURVES[figure]
    series = []
    for arm in found.points:
        at = [found.at_rate(arm, figure, rate) for rate in found.rates]
        points = tuple((rate, one.value) for rate, one in zip(found.rates, at, strict=True))
        band = tuple((one.low, one.high) for one in at)
        series.append(PlotLine(arm, points, band, dashed=arm == BOUND))
    return lines(title, series, x="programs a second", y=unit, log_y=log)

"""The page of a sweep: tables and plots."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import numpy as np

from agentrt.analysis.html_page import heading, page, paragraphs, table_of
from agentrt.analysis.plot import PlotLine, bars, cdf, lines
from agentrt.analysis.statistics import mean_interval
from agentrt.analysis.target import target_table
from agentrt.lab.sim.study import StudyPoint
from agentrt.lab.sim.sweep import Sweep

Figure = Callable[[StudyPoint], float]
_WAITS = ("held_s", "queue_s", "prefill_s", "decode_s")


def sweep_page(found: Sweep, about: Mapping[str, Any]) -> str:
    """The page of a sweep."""
    words = (
        f"{found.operating.in_words()}. Slowdown is by the same program alone, in the same "
        "simulator. All arms serve the same programs at the same instants; intervals are 95 % over "
        "seeds."
    )
    setting = f"<pre>{escape(json.dumps(dict(about), indent=1, default=str))}</pre>"
    targets = target_table(found.targets())
    parts = [paragraphs(words), targets, _arms(found), *_plots(found), heading("About"), setting]
    return page("Policies in the simulator", parts)


def _arms(found: Sweep) -> str:
    def value(name: str, figure: Figure, digits: int) -> str:
        return f"{np.mean([figure(point) for point in found.points[name]]):.{digits}f}"

    def both(name: str, figure: Figure) -> str:
        one = mean_interval([figure(point) for point in found.points[name]])
        return f"{one.value:.2f} ± {one.high - one.value:.2f}"

    columns: dict[str, Callable[[str], str]] = {
        "arm": lambda name: name,
        "latency, s": lambda name: both(name, lambda point: point.mean_latency_s),
        "slowdown": lambda name: both(name, lambda point: point.mean_slowdown),
        "p99": lambda name: value(name, lambda point: point.p99_slowdown, 1),
        "cache": lambda name: value(name, lambda point: point.cache_hit, 3),
        "from host": lambda name: value(name, lambda point: point.host_hit, 3),
        "busy": lambda name: value(name, lambda point: point.busy, 2),
        "fairness": lambda name: value(name, lambda point: point.fairness, 3),
        "wasted tokens": lambda name: value(name, lambda point: point.sums["wasted_tokens"], 1),
    }
    return table_of(found.points, columns)


def _plots(found: Sweep) -> list[str]:
    slowdowns = {
        name: np.concatenate([point.slowdown for point in points]).tolist()
        for name, points in found.points.items()
    }
    waits = {
        cause.removesuffix("_s"): {
            name: mean_interval([point.sums[cause] for point in points])
            for name, points in found.points.items()
        }
        for cause in _WAITS
    }
    plots = [
        cdf("Slowdown of programs", slowdowns, x="slowdown", log_x=True),
        bars("Seconds a program's generations spent, all added up", waits, y="seconds"),
    ]
    if any(found.curves.values()):
        plots += [
            _curve(found, "Mean slowdown by rate", lambda point: point.mean_slowdown),
            _curve(found, "99th percentile of slowdowns by rate", lambda point: point.p99_slowdown),
            _curve(
                found, "Share of prompt tokens found in the cache", lambda p: p.cache_hit, log=False
            ),
        ]
    return plots


def _curve(found: Sweep, title: str, figure: Figure, *, log: bool = True) -> str:
    series = [
        PlotLine(name, tuple((point.rate, figure(point)) for point in points))
        for name, points in found.curves.items()
    ]
    return lines(title, series, x="programs a second", y=title.split(" by")[0], log_y=log)

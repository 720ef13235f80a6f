"""The page of a sweep: tables and plots, with nothing to load."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import numpy as np

from agentrt.analysis.html_page import page, table
from agentrt.analysis.plot import PlotLine, bars, cdf, lines
from agentrt.analysis.target import target_table
from agentrt.lab.sim.statistics import over_seeds
from agentrt.lab.sim.study import StudyPoint
from agentrt.lab.sim.sweep import Sweep, tail

_WAITS = ("held_s", "queue_s", "prefill_s", "decode_s")


def sweep_page(found: Sweep, about: Mapping[str, Any]) -> str:
    """All of a sweep as HTML."""
    words = (
        f"<p>{escape(found.operating.in_words())}. Slowdown is by the same program alone, in "
        "the same simulator. All arms serve the same programs at the same instants; intervals are "
        "95 % over seeds.</p>"
    )
    targets = target_table(found.targets())
    told = f"<pre>{escape(json.dumps(dict(about), indent=1, default=str))}</pre>"
    return page(
        "Policies in the simulator",
        [
            words,
            targets,
            _arms(found),
            *_plots(found),
            "<h2>About</h2>",
            told,
        ],
    )


def _arms(found: Sweep) -> str:
    rows = []
    for name, points in found.points.items():
        latency = over_seeds([float(point.latency_s.mean()) for point in points])
        slowdown = over_seeds([float(point.slowdown.mean()) for point in points])
        rows.append(
            (
                name,
                f"{latency.value:.2f} ± {latency.high - latency.value:.2f}",
                f"{slowdown.value:.2f} ± {slowdown.high - slowdown.value:.2f}",
                f"{np.mean([tail(point) for point in points]):.1f}",
                f"{np.mean([point.hit for point in points]):.3f}",
                f"{np.mean([point.host_hit for point in points]):.3f}",
                f"{np.mean([point.busy for point in points]):.2f}",
                f"{np.mean([point.fairness for point in points]):.3f}",
                f"{np.mean([point.sums['wasted_tokens'] for point in points]):.1f}",
            )
        )
    head = (
        "arm",
        "latency, s",
        "slowdown",
        "p99",
        "cache",
        "from host",
        "busy",
        "fairness",
        "wasted tokens",
    )
    return table(head, rows)


def _plots(found: Sweep) -> list[str]:
    slowdowns = {
        name: np.concatenate([point.slowdown for point in points]).tolist()
        for name, points in found.points.items()
    }
    waits = {
        cause.removesuffix("_s"): {
            name: over_seeds(values) for name, values in _sums(found, cause).items()
        }
        for cause in _WAITS
    }
    drawn = [
        cdf("Slowdown of programs", slowdowns, x="slowdown", log_x=True),
        bars("Seconds a program's generations spent, all added up", waits, y="seconds"),
    ]
    if any(found.curves.values()):
        drawn += [
            _curve(found, "Mean slowdown by rate", lambda p: float(p.slowdown.mean())),
            _curve(found, "99th percentile of slowdowns by rate", tail),
            _curve(found, "Share of prompt tokens found in the cache", lambda p: p.hit, log=False),
        ]
    return drawn


def _sums(found: Sweep, cause: str) -> dict[str, list[float]]:
    return {name: [point.sums[cause] for point in points] for name, points in found.points.items()}


def _curve(
    found: Sweep, title: str, value: Callable[[StudyPoint], float], *, log: bool = True
) -> str:
    series = [
        PlotLine(name, tuple((point.rate, value(point)) for point in points))
        for name, points in found.curves.items()
    ]
    return lines(title, series, x="programs a second", y=title.split(" by")[0], log_y=log)

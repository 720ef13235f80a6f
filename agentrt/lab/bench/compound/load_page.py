"""A load as part of the page: its operating point, tables, plots and targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentrt.analysis.html_page import heading, table_of
from agentrt.analysis.plot import PlotLine, cdf, lines
from agentrt.analysis.target import Target, target_table
from agentrt.lab.bench.compound.result import interval_of, latencies_of

Json = Mapping[str, Any]


def load_in_words(load: Json) -> list[str]:
    """The operating point and the targets, in a few sentences."""
    at_rate = [one for one in load["probes"] if one["rate"] == load["rate"]][-1]
    asked = load["asked"]
    found = (
        f"Load: {asked['draws']} draws of {asked['programs']} programs, each played "
        f"{asked['plays']} times; {load['baseline']} has a mean slowdown of "
        f"{at_rate['slowdown']:.1f} at {load['rate']:.3g} programs a second; "
        f"{load['kv_tokens']} tokens of KV, {load['kv_share']:.2f} of the mix's working set; "
        f"the largest request has {load['largest_tokens']}; "
        f"{len(load['shortened'])} programs were scaled down to fit."
    )
    return [found, *(one["told"] for one in load["verdicts"])]


def load_parts(load: Json, arms: Sequence[Json]) -> list[str]:
    """Tables and plots."""
    verdicts = load["verdicts"]
    targets = [Target(one["what"], interval_of(one["found"]), one["most"]) for one in verdicts]
    parts = [heading("Targets") + target_table(targets)] if targets else []
    parts += [_point_table(point) for point in load["points"]]
    if len(load["points"]) > 1:
        parts += [
            lines("mean slowdown", _curves(load, "mean_slowdown"), x="programs/s", y="times"),
            lines("mean latency", _curves(load, "mean_latency_s"), x="programs/s", y="s"),
        ]
    last = load["points"][-1]
    slow = {arm["name"]: _slowdowns(load, arm, last["label"]) for arm in arms}
    parts.append(cdf(f"slowdown at {last['rate']:.3g} programs/s", slow, x="times", log_x=True))
    return parts


def _slowdowns(load: Json, arm: Json, label: str) -> list[float]:
    alone_s = load["alone_s"]
    return [
        latency_s / alone_s[name]
        for name, latencies in latencies_of(arm, label).items()
        for latency_s in latencies
    ]


def _curves(load: Json, figure: str) -> list[PlotLine]:
    found = []
    for name in load["points"][0]["arms"]:
        values = [interval_of(point["arms"][name][figure]) for point in load["points"]]
        rates = [float(point["rate"]) for point in load["points"]]
        points = tuple((rate, one.value) for rate, one in zip(rates, values, strict=True))
        found.append(PlotLine(name, points, band=tuple((one.low, one.high) for one in values)))
    return found


def _point_table(point: Json) -> str:
    columns = {
        "arm": lambda one: one[0],
        "mean latency, s": lambda one: f"{interval_of(one[1]['mean_latency_s']):.2f}",
        "mean slowdown": lambda one: f"{interval_of(one[1]['mean_slowdown']):.2f}",
        "p50": lambda one: f"{interval_of(one[1]['slowdown']['p50']):.1f}",
        "p95": lambda one: f"{interval_of(one[1]['slowdown']['p95']):.1f}",
        "p99": lambda one: f"{interval_of(one[1]['slowdown']['p99']):.1f}",
        "in time 2x, programs/s": lambda one: f"{one[1]['goodput']['2']:.3g}",
        "in time 3x, programs/s": lambda one: f"{one[1]['goodput']['3']:.3g}",
        "in time 5x, programs/s": lambda one: f"{one[1]['goodput']['5']:.3g}",
        "in time 10x, programs/s": lambda one: f"{one[1]['goodput']['10']:.3g}",
        "Jain": lambda one: f"{one[1]['fairness']:.3f}",
        "hit rate": lambda one: _shown(one[1]["hit_rate"], 3),
        "prompt computed again, by the least": lambda one: _shown(one[1].get("redundant"), 2),
    }
    rate = heading(f"{point['rate']:.3g} programs a second")
    return rate + table_of(point["arms"].items(), columns)


def _shown(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"

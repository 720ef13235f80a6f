"""A load as part of the page: where it was measured, tables, plots, and what was to be reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentrt.analysis.html_page import table
from agentrt.analysis.plot import PlotLine, cdf, lines
from agentrt.analysis.target import Target, target_table
from agentrt.lab.bench.compound.result import interval_of

Json = Mapping[str, Any]


def load_told(load: Json) -> list[str]:
    """Where it was measured and what came of it, in a few sentences."""
    probes = load["probes"]
    at_rate = [one for one in probes if one["rate"] == load["rate"]][-1]
    asked = load["asked"]
    found = (
        f"Load: {asked['draws']} draws of {asked['programs']} programs; fcfs ({load['fcfs']}) has "
        f"a mean slowdown of {at_rate['slowdown']:.1f} at {load['rate']:.3g} programs a second; "
        f"{load['kv_tokens']} tokens of KV, {load['kv_share']:.2f} of the mix's working set; "
        f"the largest request has {load['largest_tokens']}; "
        f"{len(load['shortened'])} programs were scaled down to fit."
    )
    return [found, *(one["told"] for one in load["verdicts"])]


def load_parts(load: Json, arms: Sequence[Json]) -> list[str]:
    """Tables and plots."""
    last = load["points"][-1]
    parts = ["<h2>Targets</h2>" + target_table(_targets(load))] if load["verdicts"] else []
    parts += [_point_table(point) for point in load["points"]]
    if len(load["points"]) > 1:
        parts += [
            lines("mean slowdown", _curves(load, "mean_slowdown"), x="programs/s", y="times"),
            lines("mean latency", _curves(load, "mean_latency_s"), x="programs/s", y="s"),
        ]
    slow = {arm["name"]: _slowdowns(load, arm, last["label"]) for arm in arms}
    parts.append(cdf(f"slowdown at {last['rate']:.3g} programs/s", slow, x="times", log_x=True))
    return parts


def _slowdowns(load: Json, arm: Json, label: str) -> list[float]:
    alone_s = load["alone_s"]
    samples = (sample for one in arm["samples"][label] for sample in one)
    return [sample["latency_s"] / alone_s[sample["name"]] for sample in samples]


def _curves(load: Json, figure: str) -> list[PlotLine]:
    found = []
    for name in load["points"][0]["arms"]:
        values = [interval_of(point["arms"][name][figure]) for point in load["points"]]
        rates = [float(point["rate"]) for point in load["points"]]
        points = tuple((rate, one.value) for rate, one in zip(rates, values, strict=True))
        found.append(PlotLine(name, points, band=tuple((one.low, one.high) for one in values)))
    return found


def _targets(load: Json) -> list[Target]:
    told = load["verdicts"]
    return [Target(one["what"], interval_of(one["found"]), one["most"]) for one in told]


def _point_table(point: Json) -> str:
    rows = []
    for name, told in point["arms"].items():
        latency, slow = interval_of(told["mean_latency_s"]), interval_of(told["mean_slowdown"])
        rows.append(
            [
                name,
                f"{latency.value:.2f} ({latency.low:.2f}-{latency.high:.2f})",
                f"{slow.value:.2f} ({slow.low:.2f}-{slow.high:.2f})",
                *(_shown(told["slowdown"][share]) for share in ("p50", "p95", "p99")),
                *(f"{rate:.3g}" for rate in told["goodput"].values()),
                f"{told['fairness']:.3f}",
                "-" if told["hit_rate"] is None else f"{told['hit_rate']:.3f}",
                f"{told['redundant']:.2f}" if "redundant" in told else "-",
            ]
        )
    head = ["arm", "mean latency, s", "mean slowdown", "p50", "p95", "p99"]
    head += [f"in time {limit}x, programs/s" for limit in ("2", "5", "10")]
    head += ["Jain", "hit rate", "prompt computed again, by the least"]
    return f"<h2>{point['rate']:.3g} programs a second</h2>" + table(head, rows)


def _shown(one: Json) -> str:
    found = interval_of(one)
    return f"{found.value:.1f} ({found.low:.1f}-{found.high:.1f})"

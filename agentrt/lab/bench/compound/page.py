"""The result as one page: tables and plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentrt.analysis.html_page import heading, page, paragraphs, table, table_of
from agentrt.analysis.plot import bars, cdf
from agentrt.analysis.statistics import Interval
from agentrt.lab.bench.compound.load_page import load_in_words, load_parts
from agentrt.lab.bench.compound.result import interval_of
from agentrt.lab.bench.compound.run import is_ours

Json = Mapping[str, Any]
_LABELS = ("tool", "decode", "prefill", "queue", "orchestration", "admission", "constraint")


def html(found: Json) -> str:
    """The page of a result's file."""
    labels: Sequence[str] = found["labels"]
    arms: Sequence[Json] = found["arms"]
    p50 = {label: {arm["name"]: _p50(arm, label) for arm in arms} for label in labels}
    parts = [
        paragraphs(*in_words(found)),
        heading("p50 latency, s (95 %)"),
        table(
            ["shape", *(arm["name"] for arm in arms)],
            [
                [label, *(f"{one:.3f}" for one in of_arms.values())]
                for label, of_arms in p50.items()
            ],
        ),
        bars("p50 compound latency", p50, y="s", log_y=True),
    ]
    if found["comparison"].get("to_best"):
        parts += _ratio_parts(labels, found["comparison"])
    for label in labels:
        latencies = {arm["name"]: _latencies(arm, label) for arm in arms}
        if len(latencies[arms[0]["name"]]) >= 3:
            parts.append(cdf(f"compound latency: {label}", latencies, x="s", log_x=True))
    parts += _split_parts(labels, arms)
    parts.append(_cache_table(found, labels, arms))
    if found.get("load"):
        parts += load_parts(found["load"], arms)
    if found.get("live"):
        parts.append(_live_table(found["live"]))
    if found.get("bounds"):
        parts.append(_bound_table(found["bounds"]))
    return page(f"Compound latency: {found['model']['name']}", parts)


def in_words(found: Json) -> list[str]:
    """The run in a few sentences."""
    machine, compared = found["machine"], found["comparison"]
    scaled = ", ".join(f"{name} {factor:g}" for name, factor in found["scale"].items())
    lines = [
        f"{found['model']['name']} in {found['dtype']}, {machine['processor']}, "
        f"{machine['cores']} cores, {found['at']}.",
        f"Scales against life size: {scaled}. Seed {found['seed']}. Sizes: {found['sizes']}.",
    ]
    if "geometric_mean_to_best" in compared:
        lines.append(
            f"Ours by the best other arm of each shape, geometric mean of medians: "
            f"{compared['geometric_mean_to_best']:.3f}, worst {compared['worst_to_best']:.3f}."
        )
    lines += [
        f"{kind} reaches {one['share']:.0%} of its engine's own rate"
        f"{': nothing was compared with it' if one['refused'] else ''}."
        for kind, one in found["reaches"].items()
    ]
    lines += [
        f"Ours by {peer}: geometric mean {one['geometric_mean']:.3f}."
        for peer, one in compared["peers"].items()
    ]
    return lines + (load_in_words(found["load"]) if found.get("load") else [])


def _p50(arm: Json, label: str) -> Interval:
    return interval_of(arm["figures"][label]["latency_s"]["p50"])


def _latencies(arm: Json, label: str) -> list[float]:
    return [sample["latency_s"] for one in arm["samples"][label] for sample in one]


def _ratio_parts(labels: Sequence[str], compared: Json) -> list[str]:
    groups = {
        label: {peer: interval_of(one["shapes"][label]) for peer, one in compared["peers"].items()}
        for label in labels
    }
    columns = {
        "shape": lambda label: label,
        "best other arm": lambda label: compared["best_peer"][label],
        "ours by it": lambda label: f"{compared['to_best'][label]:.3f}",
    }
    plot = bars("our latency by theirs", groups, y="ratio", line_at=1.0)
    return [plot, table_of(labels, columns)]


def _split_parts(labels: Sequence[str], arms: Sequence[Json]) -> list[str]:
    """Time on the critical path of our arm."""
    ours = next((arm for arm in arms if is_ours(arm["name"])), None)
    if ours is None:
        return []
    groups = {}
    for label in labels:
        split = ours["figures"][label]["split_s"]
        known = [(name, split[name]) for name in _LABELS if name in split]
        groups[label] = {name: Interval(value, value, value) for name, value in known}
    return [bars("critical path of our arm, mean", groups, y="s")]


def _cache_table(found: Json, labels: Sequence[str], arms: Sequence[Json]) -> str:
    rows = []
    for label in labels:
        row = [label, f"{found['ideal_hit_rate'][label]:.3f}"]
        for arm in arms:
            figures = arm["figures"][label]
            hit, wasted = figures["hit_rate"], figures["wasted_tokens"]
            useful = max(1, figures["output_tokens"])
            row.append("-" if hit is None else f"{hit:.3f}")
            row.append("-" if wasted is None else f"{wasted / useful:.2f}")
        rows.append(row)
    head = ["shape", "never forgetting"]
    head += [f"{arm['name']} {what}" for arm in arms for what in ("hit rate", "wasted/useful")]
    return heading("Cache and waste") + table(head, rows)


def _live_table(live: Json) -> str:
    def most(split: Mapping[str, float]) -> str:
        longest = sorted(split, key=lambda label: -split[label])[:3]
        return ", ".join(f"{label} {split[label] * 1e3:.0f} ms" for label in longest)

    def share(usage: Mapping[str, int], part: str, whole: str) -> str:
        return f"{usage[part] / max(1, usage[whole]):.2f}"

    columns = {
        "program": lambda one: one[0],
        "ok": lambda one: f"{one[1]['ok']} of {one[1]['runs']}",
        "p50 s": lambda one: f"{one[1]['latency_s']['p50']['value']:.3f}",
        "p95 s": lambda one: f"{one[1]['latency_s']['p95']['value']:.3f}",
        "forced": lambda one: share(one[1]["usage"], "forced_tokens", "output_tokens"),
        "cached": lambda one: share(one[1]["usage"], "cached_tokens", "input_tokens"),
        "where its time went": lambda one: most(one[1]["split_s"]),
    }
    title = heading("Programs as they are, on the embedded model")
    return title + table_of(live.items(), columns)


def _bound_table(bounds: Json) -> str:
    def seconds(value: float | None) -> str:
        return "-" if value is None else f"{value:.3f}"

    def times(one: Json, least: float | None) -> str:
        return f"{one['latency_s'] / least:.2f}" if least else "-"

    columns = {
        "shape": lambda one: one[0],
        "p50 s": lambda one: seconds(one[1]["latency_s"]),
        "hardware bound s": lambda one: seconds(one[1]["hardware_s"]),
        "by it": lambda one: times(one[1], one[1]["hardware_s"]),
        "bound by own steps s": lambda one: seconds(one[1]["steps_s"]),
        "by that": lambda one: times(one[1], one[1]["steps_s"]),
    }
    title = heading("Distance from the limit (our arm)")
    return title + table_of(bounds["shapes"].items(), columns)

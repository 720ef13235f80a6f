"""The result as one page: tables and plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from agentrt.analysis.html_page import page, table
from agentrt.analysis.plot import Interval, bars, cdf
from agentrt.lab.bench.compound.load_page import load_parts, load_told
from agentrt.lab.bench.compound.result import interval_of, is_ours

Json = Mapping[str, Any]
_LABELS = ("tool", "decode", "prefill", "queue", "orchestration", "admission", "constraint")


def html(found: Json) -> str:
    """The page of a result, as `command` made it."""
    labels: Sequence[str] = found["labels"]
    arms: Sequence[Json] = found["arms"]
    parts = [f"<p>{escape(line)}</p>" for line in told_of(found)]
    parts.append(_latency_table(labels, arms))
    groups = {
        label: {arm["name"]: interval_of(arm["figures"][label]["latency_s"]["p50"]) for arm in arms}
        for label in labels
    }
    parts.append(bars("p50 compound latency", groups, y="s", log_y=True))
    if found["comparison"].get("to_best"):
        parts += _ratio_parts(labels, found["comparison"])
    parts += [
        cdf(
            f"compound latency: {label}",
            {arm["name"]: _latencies(arm, label) for arm in arms},
            x="s",
            log_x=True,
        )
        for label in labels
        if len(_latencies(arms[0], label)) >= 3
    ]
    parts.append(_split_part(labels, arms))
    parts.append(_cache_table(found, labels, arms))
    if found.get("load"):
        parts += load_parts(found["load"], arms)
    if found.get("live"):
        parts.append(_live_table(found["live"]))
    if found.get("bounds"):
        parts.append(_bound_table(found["bounds"]))
    return page(f"Compound latency: {found['model']['name']}", [part for part in parts if part])


def told_of(found: Json) -> list[str]:
    """The run in a few sentences."""
    machine, scale = found["machine"], found["scale"]
    scaled = ", ".join(f"{name} {factor:g}" for name, factor in scale.items())
    lines = [
        f"{found['model']['name']} in {found['dtype']}, {machine['processor']}, "
        f"{machine['cores']} cores, {found['at']}.",
        f"Scales against life size: {scaled}. Seed {found['seed']}. Sizes: {found['sizes']}.",
    ]
    compared = found["comparison"]
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
    if found.get("load"):
        lines += load_told(found["load"])
    return lines


def _latencies(arm: Json, label: str) -> list[float]:
    return [sample["latency_s"] for one in arm["samples"][label] for sample in one]


def _latency_table(labels: Sequence[str], arms: Sequence[Json]) -> str:
    rows = []
    for label in labels:
        row = [label]
        for arm in arms:
            one = interval_of(arm["figures"][label]["latency_s"]["p50"])
            row.append(f"{one.value:.3f} ({one.low:.3f}-{one.high:.3f})")
        rows.append(row)
    return "<h2>p50 latency, s (95 %)</h2>" + table(["shape", *(a["name"] for a in arms)], rows)


def _ratio_parts(labels: Sequence[str], compared: Json) -> list[str]:
    groups = {
        label: {peer: interval_of(one["shapes"][label]) for peer, one in compared["peers"].items()}
        for label in labels
    }
    rows = [
        [label, compared["best_peer"][label], f"{compared['to_best'][label]:.3f}"]
        for label in labels
    ]
    return [
        bars("our latency by theirs", groups, y="ratio", line_at=1.0),
        table(["shape", "best other arm", "ours by it"], rows),
    ]


def _split_part(labels: Sequence[str], arms: Sequence[Json]) -> str:
    """Of our arm, where the path's time went."""
    ours = next((arm for arm in arms if is_ours(arm["name"])), None)
    if ours is None:
        return ""
    groups = {}
    for label in labels:
        seconds = ours["figures"][label]["split_s"]
        groups[label] = {
            name: Interval(seconds[name], seconds[name], seconds[name])
            for name in _LABELS
            if name in seconds
        }
    return bars("critical path of our arm, mean", groups, y="s")


def _cache_table(found: Json, labels: Sequence[str], arms: Sequence[Json]) -> str:
    rows = []
    for label in labels:
        row = [label, f"{found['ideal_hit_rate'][label]:.3f}"]
        for arm in arms:
            told = arm["figures"][label]
            hit, wasted = told["hit_rate"], told["wasted_tokens"]
            row.append("-" if hit is None else f"{hit:.3f}")
            row.append("-" if wasted is None else f"{wasted / max(1, told['output_tokens']):.2f}")
        rows.append(row)
    head = ["shape", "never forgetting"]
    head += [f"{arm['name']} {what}" for arm in arms for what in ("hit rate", "wasted/useful")]
    return "<h2>Cache and waste</h2>" + table(head, rows)


def _live_table(live: Json) -> str:
    rows = []
    for name, told in live.items():
        usage, split = told["usage"], told["split_s"]
        most = sorted(split, key=lambda label: -float(split[label]))[:3]
        rows.append(
            [
                name,
                f"{told['ok']} of {told['runs']}",
                *(f"{told['latency_s'][share]['value']:.3f}" for share in ("p50", "p95")),
                f"{usage['forced_tokens'] / max(1, usage['output_tokens']):.2f}",
                f"{usage['cached_tokens'] / max(1, usage['input_tokens']):.2f}",
                ", ".join(f"{label} {split[label] * 1e3:.0f} ms" for label in most),
            ]
        )
    head = ["program", "ok", "p50 s", "p95 s", "forced", "cached", "where its time went"]
    return "<h2>Programs as they are, on the embedded model</h2>" + table(head, rows)


def _bound_table(bounds: Json) -> str:
    rows = []
    for label, one in bounds["shapes"].items():
        row = [label, f"{one['latency_s']:.3f}"]
        for name in ("hardware_s", "steps_s"):
            least = one[name]
            row += ["-", "-"] if least is None else [f"{least:.3f}", _times(one, least)]
        rows.append(row)
    head = ["shape", "p50 s", "hardware bound s", "ratio", "bound by own steps s", "ratio"]
    return "<h2>Distance from the limit (our arm)</h2>" + table(head, rows)


def _times(one: Json, least: float) -> str:
    return f"{one['latency_s'] / least:.2f}" if least else "-"

"""The result as one page: tables and plots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentrt.analysis.html_page import heading, page, paragraphs, table, table_of
from agentrt.analysis.plot import bars, cdf
from agentrt.analysis.statistics import Interval
from agentrt.lab.bench.compound.ablation import ablation_in_words, ablation_parts
from agentrt.lab.bench.compound.ceiling import ceilings_in_words, guesses_in_words
from agentrt.lab.bench.compound.figures import sum_if_known
from agentrt.lab.bench.compound.load_page import load_in_words, load_parts
from agentrt.lab.bench.compound.result import interval_of, latencies_of
from agentrt.lab.bench.compound.run import is_ours

Json = Mapping[str, Any]
_TOLD = {
    "requests": "requests",
    "given_up": "given up",
    "computed_tokens": "prompt tokens computed",
    "cached_tokens": "cached",
    "output_tokens": "output tokens",
    "forced_tokens": "forced",
    "steps": "steps",
}
"""Counts of an arm's work in a sentence."""
_COUNTS = {
    "requests": "requests",
    "given_up": "given up",
    "prompt_tokens": "prompt tokens",
    "cached_tokens": "cached",
    "computed_tokens": "computed",
    "output_tokens": "output tokens",
    "forced_tokens": "forced",
    "drafted_tokens": "drafted",
    "late_tokens": "late prompt tokens",
    "wasted_tokens": "wasted",
    "steps": "steps",
    "early_tools": "early tools",
    "early_calls": "early calls",
}
"""Counts of an arm's work in a table."""
_LABELS = ("tool", "decode", "prefill", "queue", "orchestration", "admission", "constraint")


def html(found: Json) -> str:
    """The page of a result's file."""
    labels: Sequence[str] = found["labels"]
    arms: Sequence[Json] = found["arms"]
    p50 = {
        label: {arm["name"]: _p50(arm, label) for arm in arms if label in arm["figures"]}
        for label in labels
    }
    parts = [
        paragraphs(*in_words(found)),
        heading("p50 latency, s (95 %)"),
        table(
            ["shape", *(arm["name"] for arm in arms)],
            [
                [label, *(_shown(of_arms.get(arm["name"])) for arm in arms)]
                for label, of_arms in p50.items()
            ],
        ),
        bars("p50 compound latency", p50, y="s", log_y=True),
    ]
    parts += ablation_parts(found)
    if found["comparison"].get("to_best"):
        parts += _ratio_parts(labels, found["comparison"])
    for label in labels:
        latencies = {arm["name"]: _latencies(arm, label) for arm in arms}
        if min(map(len, latencies.values())) >= 3:
            parts.append(cdf(f"compound latency: {label}", latencies, x="s", log_x=True))
    parts += _split_parts(arms)
    parts.append(work_table(found, labels, arms))
    if found["parts"]:
        parts.append(_part_table(found["parts"]))
    if found.get("load"):
        parts += load_parts(found["load"], arms)
    if found.get("live"):
        parts.append(_live_table(found["live"]))
    if found.get("bounds"):
        parts.append(_bound_table(found["bounds"]))
    return page(f"Compound latency: {found['identity']['model']['name']}", parts)


def in_words(found: Json) -> list[str]:
    """The run in a few sentences."""
    same, compared = found["identity"], found["comparison"]
    scaled = ", ".join(f"{name} {factor:g}" for name, factor in same["scale"].items())
    lines = [
        f"{same['model']['name']} in {same['dtype']}, {same['machine']['processor']}, "
        f"{same['machine']['cores']} cores, {found['at']}, code {same['code']}.",
        f"Scales against life size: {scaled}. Seed {same['seed']}. Sizes: {same['sizes']}.",
        *_shortened(found["shortened"]),
        *(_played(arm) for arm in found["arms"]),
    ]
    if "geometric_mean_to_best" in compared:
        lines.append(
            f"Ours by the best other arm of each shape, geometric mean (95 % over draws and "
            f"plays): {interval_of(compared['geometric_mean_to_best']):.3f}, worst shape "
            f"{compared['worst_to_best']:.3f}."
        )
    lines += [
        f"{kind} reaches {one['share']:.0%} of its engine's own rate"
        f"{': nothing was compared with it' if one['refused'] else ''}."
        for kind, one in found["reaches"].items()
    ]
    lines += [
        f"Ours by {peer}: geometric mean {interval_of(one['geometric_mean']):.3f} over "
        f"{len(one['shapes'])} shapes."
        for peer, one in compared["peers"].items()
    ]
    lines += [*ceilings_in_words(found), *guesses_in_words(found)]
    lines += ablation_in_words(found)
    return lines + (load_in_words(found["load"]) if found.get("load") else [])


def _shortened(shortened: Json) -> list[str]:
    """Programs whose prompts do not fit the window."""
    if not shortened:
        return []
    least = min(shortened.values())
    return [f"Prompts of {len(shortened)} programs are shortened to fit, to {least:.2f} at least."]


def _played(arm: Json) -> str:
    """Draws, plays and work of an arm."""
    of_labels = arm["figures"].values()
    busy = max((one["others_cores"] or 0.0 for one in of_labels), default=0.0)
    work = {name: _summed(one["work"][name] for one in of_labels) for name in _TOLD}
    counts = ", ".join(f"{count:,} {_TOLD[name]}" for name, count in work.items() if count)
    return (
        f"{arm['name']}: {len(of_labels)} shapes, {sum(one['plays'] for one in of_labels)} plays "
        f"of {sum(one['draws'] for one in of_labels)} programs; {counts}; others took at most "
        f"{busy:.2f} cores."
    )


def _summed(counts: Iterable[int | None]) -> int | None:
    return sum_if_known(list(counts))


def _p50(arm: Json, label: str) -> Interval:
    return interval_of(arm["figures"][label]["latency_s"]["p50"])


def _latencies(arm: Json, label: str) -> list[float]:
    return [one for latencies in latencies_of(arm, label).values() for one in latencies]


def _ratio_parts(labels: Sequence[str], compared: Json) -> list[str]:
    compared_labels = [label for label in labels if label in compared["to_best"]]
    groups = {
        label: {
            peer: interval_of(one["shapes"][label])
            for peer, one in compared["peers"].items()
            if label in one["shapes"]
        }
        for label in compared_labels
    }
    columns = {
        "shape": lambda label: label,
        "best other arm": lambda label: compared["best_peer"][label],
        "ours by it (95 %)": lambda label: f"{interval_of(compared['to_best'][label]):.3f}",
    }
    plot = bars("our latency by theirs", groups, y="ratio", line_at=1.0)
    return [plot, table_of(compared_labels, columns)]


def _split_parts(arms: Sequence[Json]) -> list[str]:
    """Time on the critical path of our arm."""
    ours = next((arm for arm in arms if is_ours(arm["name"])), None)
    if ours is None:
        return []
    groups = {}
    for label in ours["figures"]:
        split = ours["figures"][label]["split_s"]
        known = [(name, split[name]) for name in _LABELS if name in split]
        groups[label] = {name: Interval(value, value, value) for name, value in known}
    return [bars("critical path of our arm, mean", groups, y="s")]


def work_table(found: Json, labels: Sequence[str], arms: Sequence[Json]) -> str:
    """The work of each arm in each shape, for each program played."""
    rows = []
    for label in labels:
        for arm in (arm for arm in arms if label in arm["figures"]):
            figures = arm["figures"][label]
            work = figures["work"]
            each = [_a_program(work[name], work["programs"]) for name in _COUNTS]
            hit, ideal = figures["hit_rate"], found["ideal_hit_rate"][label]
            rates = f"{'-' if hit is None else f'{hit:.3f}'} of {ideal:.3f}"
            rows.append([label, arm["name"], f"{work['programs']}", *each, rates])
    head = [
        "shape",
        "arm",
        "programs",
        *_COUNTS.values(),
        "hit rate, of the ideal one",
    ]
    return heading("Work, for each program played") + table(head, rows)


def _a_program(count: int | None, programs: int) -> str:
    return "-" if count is None else f"{count / programs:,.1f}"


def _shown(one: Interval | None) -> str:
    return "-" if one is None else f"{one:.3f}"


def _part_table(parts: Sequence[Json]) -> str:
    columns = {
        "at": lambda one: one["at"],
        "command": lambda one: " ".join(one["command"]),
        "minutes": lambda one: f"{one['took_s'] / 60:.1f}",
        "of these": lambda one: ", ".join(
            f"{name} {seconds / 60:.1f}" for name, seconds in one["times_s"].items()
        ),
    }
    return heading("Parts") + table_of(parts, columns)


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
        "with our guesses s": lambda one: seconds(one[1].get("guessed_s")),
    }
    title = heading("Distance from the limit (our arm)")
    return title + table_of(bounds["shapes"].items(), columns)

"""An ablation: each feature's ratio, one table and one plot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from agentrt.analysis.html_page import heading, table
from agentrt.analysis.plot import bars
from agentrt.analysis.statistics import Interval
from agentrt.lab.bench.compound.arm_samples import ArmSamples
from agentrt.lab.bench.compound.features import FEATURES, WITH_ALL, without_name
from agentrt.lab.bench.compound.figures import sum_if_known
from agentrt.lab.bench.compound.ratios import geometric_ratio, paired

Json = Mapping[str, Any]


def ablation_ratios(samples: Mapping[str, ArmSamples]) -> dict[str, Any]:
    """By feature, latency with all features by latency without it.

    The first ratio is over all shapes, the second over those that the feature touches; None if none
    of these was played.
    """
    found: dict[str, Any] = {}
    for name, feature in FEATURES.items():
        if WITH_ALL not in samples or without_name(name) not in samples:
            continue
        every, without = samples[WITH_ALL], samples[without_name(name)]
        labels = dict.fromkeys(play.label for play in without.plays)
        pairs = {label: paired(every, without, label) for label in labels}
        pairs = {label: programs for label, programs in pairs.items() if programs}
        if pairs:
            touched = {label: pairs[label] for label in feature.touches if label in pairs}
            found[name] = {
                "all": asdict(geometric_ratio(pairs)),
                "touched": asdict(geometric_ratio(touched)) if touched else None,
            }
    return found


def ablation_parts(found: Json) -> list[str]:
    """The table and the plot; [] if nothing was taken away."""
    ratios: Json = found["ablation"]
    if not ratios:
        return []
    arms = {arm["name"]: arm for arm in found["arms"]}
    rows = []
    for name, one in ratios.items():
        feature = FEATURES[name]
        counts = [_sum(arms[arm], feature.count) for arm in (WITH_ALL, without_name(name))]
        rows.append([name, feature.what, _shown(one["all"]), _shown(one["touched"]), *counts])
    head = ["feature", "effect", "all shapes", "shapes that it touches", "count", "without it"]
    groups = {
        name: {
            what: Interval(**one[key])
            for key, what in (("all", "all shapes"), ("touched", "shapes that it touches"))
            if one[key] is not None
        }
        for name, one in ratios.items()
    }
    title = "latency with every feature by latency without one"
    return [
        heading(f"Ablation: {title} (95 %)"),
        table(head, rows),
        bars(title, groups, y="ratio", line_at=1.0),
    ]


def ablation_in_words(found: Json) -> list[str]:
    """A line for each feature."""
    return [
        f"With every feature by without {name}: {_shown(one['all'])}; in shapes that it touches "
        f"{_shown(one['touched'])}."
        for name, one in found["ablation"].items()
    ]


def _shown(one: Mapping[str, float] | None) -> str:
    return "-" if one is None else f"{Interval(**one):.3f}"


def _sum(arm: Json, count: str) -> str:
    """A count of an arm's work in words; "-" if the feature has none, or it is unknown."""
    values = [one["work"][count] for one in arm["figures"].values()] if count else [None]
    total = sum_if_known(values)
    return "-" if total is None else f"{total:,} {count.replace('_', ' ')}"

"""What was found: latencies with intervals, ratios to peers, and all of it as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from statistics import median
from typing import Any

from agentrt.analysis.plot import Interval
from agentrt.analysis.statistics import (
    geometric_mean,
    interval,
    mean,
    percentile,
    percentiles,
)
from agentrt.lab.arms.program_arm import OURS, OpenPlayer
from agentrt.lab.bench.compound.figures import PlayedProgram, hit_rate, mean_split
from agentrt.lab.bench.compound.ideal import PrefixTree
from agentrt.lab.bench.compound.measure import ArmSamples
from agentrt.lab.bench.compound.plan import Round

SCHEMA = "agentrt.bench.compound/1"
Json = dict[str, Any]


def figures(samples: Sequence[PlayedProgram]) -> Json:
    """Of one arm's samples of one label."""
    latencies = [sample.latency_s for sample in samples]
    wasted = [sample.wasted_tokens for sample in samples]
    output = sum(sum(sample.output_tokens.values()) for sample in samples)
    return {
        "latency_s": {name: asdict(one) for name, one in percentiles(latencies).items()},
        "mean_s": asdict(interval(latencies, mean)),
        "without_tools_s": percentile(
            [sample.latency_s - sample.tools_s for sample in samples], 0.5
        ),
        "hit_rate": hit_rate(samples),
        "output_tokens": output,
        "wasted_tokens": None if None in wasted else sum(count or 0 for count in wasted),
        "split_s": mean_split(samples),
    }


def ratios(ours: ArmSamples, peer: ArmSamples, label: str) -> list[float]:
    """Our latency by the peer's, for each program."""
    pairs = zip(ours.all(label), peer.all(label), strict=True)
    return [mine.latency_s / theirs.latency_s for mine, theirs in pairs]


def comparison(samples: Mapping[str, ArmSamples], labels: Sequence[str], ours: str) -> Json:
    """Our arm against each of the others, and against the best of them in each shape."""
    peers = [name for name in samples if name != ours]
    by_peer: Json = {}
    for peer in peers:
        found = {label: ratios(samples[ours], samples[peer], label) for label in labels}
        middle = partial(percentile, share=0.5)
        by_peer[peer] = {
            "shapes": {label: asdict(interval(all_, middle)) for label, all_ in found.items()},
            "geometric_mean": geometric_mean([median(all_) for all_ in found.values()]),
        }
    if not peers:
        return {"peers": {}}
    best: dict[str, str] = {}
    for label in labels:
        best[label] = min(
            peers, key=lambda peer: median(s.latency_s for s in samples[peer].all(label))
        )
    of_best = {label: by_peer[best[label]]["shapes"][label]["value"] for label in labels}
    return {
        "peers": by_peer,
        "best_peer": best,
        "to_best": of_best,
        "geometric_mean_to_best": geometric_mean(list(of_best.values())),
        "worst_to_best": max(of_best.values()),
    }


def ideal_hit_rates(rounds: Sequence[Round]) -> dict[str, float]:
    """By label, the share of prompt tokens that a cache that never forgets would have had.

    Template tokens are not counted, so an engine that keeps everything may come out above.
    """
    trees: dict[str, PrefixTree] = {}
    prompt: dict[str, int] = {}
    new: dict[str, int] = {}
    for one in rounds:
        tree = trees.setdefault(one.text, PrefixTree())
        for program in one.programs:
            shares = tree.add(program).values()
            if one.counts:
                asked = sum(share.prompt_tokens for share in shares)
                prompt[one.label] = prompt.get(one.label, 0) + asked
                fresh = sum(share.new_tokens for share in shares)
                new[one.label] = new.get(one.label, 0) + fresh
    return {label: 1 - new[label] / tokens for label, tokens in prompt.items()}


def arms_json(
    players: Mapping[str, OpenPlayer], samples: Mapping[str, ArmSamples], labels: Sequence[str]
) -> list[Json]:
    """Every arm: how it was set up, its figures and its raw samples."""
    return [
        {
            "name": name,
            "client": player.arm.client,
            "server": player.arm.server,
            "settings": without_places(player.arm.settings),
            "about": without_places(player.about),
            "figures": {label: figures(samples[name].all(label)) for label in labels},
            "samples": {
                label: [[asdict(sample) for sample in one] for one in samples[name].rounds[label]]
                for label in labels
            },
        }
        for name, player in players.items()
    ]


def is_ours(name: str) -> bool:
    """Whether an arm is our runtime, by whatever policy."""
    return name.split(":")[0] == OURS


def interval_of(told: Mapping[str, float]) -> Interval:
    """An interval as the JSON holds it."""
    return Interval(told["value"], told["low"], told["high"])


def without_places(value: Any) -> Any:
    """A value as JSON has it; of a path, which tells where somebody keeps things, two names."""
    if isinstance(value, Mapping):
        return {name: without_places(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_places(one) for one in value]
    if isinstance(value, str) and value.startswith("/"):
        return "/".join(value.split("/")[-2:])
    return value

"""The result of a run: latencies with intervals, ratios to peers, and the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from statistics import median
from typing import Any

from agentrt.analysis.model_shape import ModelShape
from agentrt.analysis.statistics import (
    Interval,
    geometric_mean,
    interval,
    mean,
    percentile,
    percentiles,
)
from agentrt.base.config import SchedulerConfig
from agentrt.lab.bench.compound.figures import PlayedProgram, hit_rate, mean_split, sum_if_known
from agentrt.lab.bench.compound.ideal import PrefixTree
from agentrt.lab.bench.compound.plan import ProgramDraw, Round, totals
from agentrt.lab.bench.compound.run import ArmSamples, CompoundRun, is_ours
from agentrt.lab.result_file import header, machine, short_paths

SCHEMA = "agentrt.bench.compound/1"
Json = dict[str, Any]
_MIDDLE = partial(percentile, share=0.5)


def to_json(run: CompoundRun, shape: ModelShape, drawing: ProgramDraw, sizes: str) -> Json:
    """The file of a run.

    Args:
        run: The run.
        shape: Shape of the model.
        drawing: How programs were drawn.
        sizes: Where their sizes come from, in words.
    """
    samples, served = run.samples, run.config.served
    ours = max((name for name in samples if is_ours(name)), key=_is_default, default=None)
    return {
        **header(SCHEMA),
        "machine": machine(),
        "model": asdict(shape) | {"parameters": shape.parameters},
        "dtype": served.dtype,
        "kv_tokens": served.kv_tokens,
        "slots": served.slots,
        "scale": asdict(drawing.scale),
        "seed": drawing.seed,
        "sizes": sizes,
        "labels": run.labels,
        "totals": {
            label: totals([p for one in run.rounds if one.label == label for p in one.programs])
            for label in run.labels
        },
        "ideal_hit_rate": ideal_hit_rates(run.rounds),
        "choices": run.opened.choices,
        "reaches": run.opened.efficiency,
        "comparison": comparison(samples, run.labels, ours) if ours else {"peers": {}},
        "arms": _arms(run),
        **({"load": run.load} if run.load else {}),
    }


def _is_default(name: str) -> bool:
    """True for the default policy, which is compared with the others."""
    return name.endswith(f":{SchedulerConfig().policy}")


def figures(samples: Sequence[PlayedProgram]) -> Json:
    """Figures of one arm's samples of one label."""
    latencies = [sample.latency_s for sample in samples]
    return {
        "latency_s": {name: asdict(one) for name, one in percentiles(latencies).items()},
        "mean_s": asdict(interval(latencies, mean)),
        "without_tools_s": _MIDDLE([sample.service_s for sample in samples]),
        "hit_rate": hit_rate(samples),
        "output_tokens": sum(sum(sample.output_tokens.values()) for sample in samples),
        "wasted_tokens": sum_if_known([sample.wasted_tokens for sample in samples]),
        "split_s": mean_split(samples),
    }


def ratios(ours: ArmSamples, peer: ArmSamples, label: str) -> list[float]:
    """Our latency divided by the peer's, for each program."""
    pairs = zip(ours.all(label), peer.all(label), strict=True)
    return [mine.latency_s / theirs.latency_s for mine, theirs in pairs]


def comparison(samples: Mapping[str, ArmSamples], labels: Sequence[str], ours: str) -> Json:
    """Our arm beside each of the others, and beside the best of them in each shape."""
    peers = [name for name in samples if name != ours]
    if not peers:
        return {"peers": {}}
    by_peer: Json = {}
    for peer in peers:
        found = {label: ratios(samples[ours], samples[peer], label) for label in labels}
        by_peer[peer] = {
            "shapes": {label: asdict(interval(all_, _MIDDLE)) for label, all_ in found.items()},
            "geometric_mean": geometric_mean([median(all_) for all_ in found.values()]),
        }

    def median_s(peer: str, label: str) -> float:
        return median(sample.latency_s for sample in samples[peer].all(label))

    best = {label: min(peers, key=partial(median_s, label=label)) for label in labels}
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
    prompt, new = Counter[str](), Counter[str]()
    for one in rounds:
        tree = trees.setdefault(one.text, PrefixTree())
        for program in one.programs:
            shares = tree.add(program).values()
            if one.counts:
                prompt[one.label] += sum(share.prompt_tokens for share in shares)
                new[one.label] += sum(share.new_tokens for share in shares)
    return {label: 1 - new[label] / tokens for label, tokens in prompt.items()}


def _arms(run: CompoundRun) -> list[Json]:
    """Every arm: its settings, its figures and its raw samples."""
    found = []
    for name, process in run.opened.arms.items():
        client, _, server = process.arm.engine.partition("+")
        samples = run.samples[name]
        found.append(
            {
                "name": name,
                "client": client,
                "server": server,
                "settings": short_paths(process.arm.settings),
                "about": short_paths(process.about),
                "figures": {label: figures(samples.all(label)) for label in run.labels},
                "samples": {
                    label: [[asdict(sample) for sample in one] for one in samples.rounds[label]]
                    for label in run.labels
                },
            }
        )
    return found


def interval_of(found: Mapping[str, float]) -> Interval:
    """An interval of the file."""
    return Interval(**found)

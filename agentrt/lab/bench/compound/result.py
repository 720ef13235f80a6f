"""The result of a run: latencies with intervals, ratios to peers, and the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from agentrt.analysis.model_shape import ModelShape
from agentrt.analysis.statistics import Interval, interval, mean, percentile, percentiles
from agentrt.base.config import SchedulerConfig
from agentrt.lab.arms.arm_process import OURS
from agentrt.lab.arms.served import Served
from agentrt.lab.bench.compound.ablation import ablation_ratios
from agentrt.lab.bench.compound.arm_samples import ArmSamples, PlayedRound
from agentrt.lab.bench.compound.ceiling import ceilings
from agentrt.lab.bench.compound.features import WITH_ALL
from agentrt.lab.bench.compound.figures import hit_rate, mean_split
from agentrt.lab.bench.compound.ideal import PrefixTree
from agentrt.lab.bench.compound.open_arms import PLAIN
from agentrt.lab.bench.compound.plan import ProgramDraw, Round, totals
from agentrt.lab.bench.compound.ratios import geometric_ratio, paired, ratio
from agentrt.lab.bench.compound.recorded_texts import sources_of
from agentrt.lab.bench.compound.run import CompoundRun, is_ours
from agentrt.lab.bench.compound.work import work_of
from agentrt.lab.bench.flags import COMPOUND_FILE, CompoundFlags
from agentrt.lab.code_version import code_version
from agentrt.lab.result_file import header, machine

Json = dict[str, Any]
_MIDDLE = partial(percentile, share=0.5)


def identity_of(
    served: Served, shape: ModelShape, drawing: ProgramDraw, facts: Mapping[str, Any]
) -> Json:
    """Facts that have to be the same in all parts of a result.

    Args:
        served: Model and memory of all arms.
        shape: Shape of the model.
        drawing: How programs were drawn.
        facts: Facts that need no model, see `flag_facts`.
    """
    return {
        **facts,
        "model": asdict(shape) | {"parameters": shape.parameters},
        "dtype": served.dtype,
        "kv_tokens": served.kv_tokens,
        "slots": served.slots,
        "longest_tokens": served.longest_tokens,
        "scale": asdict(drawing.scale),
    }


def flag_facts(flags: CompoundFlags) -> Json:
    """Machine, code and those flags that have to be the same in all parts of a result."""
    here = machine()
    del here["load_average"]
    return {
        "machine": here,
        "code": code_version(),
        "threads": flags.threads,
        "seed": flags.seed,
        "sizes": "public data" if flags.data else "quantiles of public data",
        "texts": sources_of(flags),
        "load": flags.load,
        "warmups": flags.warmups,
    }


def to_json(run: CompoundRun) -> Json:
    """The file of a run, as far as it has been played."""
    plays, labels = run.plays, run.labels
    samples = {name: one for name in plays.arms if (one := plays.of(name)).plays}
    ours = max((name for name in samples if is_ours(name)), key=_is_default, default=None)
    compared = comparison(samples, labels, ours) if ours else {"peers": {}}
    return {
        **header(COMPOUND_FILE.schema),
        "identity": plays.identity,
        "labels": labels,
        "totals": {
            label: totals([p for one in run.rounds if one.label == label for p in one.programs])
            for label in labels
        },
        "shortened": {name: by for one in run.rounds for name, by in one.shortened.items()},
        "ideal_hit_rate": ideal_hit_rates(run.rounds),
        "choices": plays.choices,
        "reaches": plays.reaches,
        "comparison": compared,
        "ablation": ablation_ratios(samples),
        "arms": [_arm(name, one, plays.arms[name], labels) for name, one in samples.items()],
        "bounds": plays.bounds,
        "ceilings": ceilings(samples, plays.bounds, compared),
        "parts": plays.parts,
        **({"load": run.load} if run.load else {}),
    }


def _is_default(name: str) -> tuple[bool, bool]:
    """Largest for the arm as it is or with every feature, then for the default policy."""
    return name in (OURS, WITH_ALL), name.endswith(f":{SchedulerConfig().policy}")


def figures(plays: Sequence[PlayedRound]) -> Json:
    """Figures of one arm's plays of one label."""
    samples = [sample for play in plays for sample in play.programs]
    latencies = [sample.latency_s for sample in samples]
    others = [play.others_during for play in plays if play.others_during is not None]
    return {
        "draws": len({play.draw for play in plays}),
        "plays": len(plays),
        "latency_s": {name: asdict(one) for name, one in percentiles(latencies).items()},
        "mean_s": asdict(interval(latencies, mean)),
        "without_tools_s": _MIDDLE([sample.service_s for sample in samples]),
        "hit_rate": hit_rate(samples),
        "split_s": mean_split(samples),
        "others_cores": max(others, default=None),
        "work": asdict(work_of(plays)),
    }


def comparison(samples: Mapping[str, ArmSamples], labels: Sequence[str], ours: str) -> Json:
    """Our arm beside each of the others, and beside the best of them in each shape.

    Only programs that both have played are compared.
    """
    by_peer: Json = {}
    for peer in samples:
        pairs = {label: paired(samples[ours], samples[peer], label) for label in labels}
        pairs = {label: found for label, found in pairs.items() if found}
        if peer != ours and pairs:
            by_peer[peer] = {
                "shapes": {label: asdict(ratio(found)) for label, found in pairs.items()},
                "geometric_mean": asdict(geometric_ratio(pairs)),
                "programs": {label: len(found) for label, found in pairs.items()},
            }
    if not by_peer:
        return {"peers": {}}
    best: dict[str, str] = {}
    to_best: dict[str, Json] = {}
    for label in labels:
        having = [peer for peer, one in by_peer.items() if label in one["shapes"]]
        having = [peer for peer in having if peer != PLAIN] or having  # our own arm is no rival
        if having:  # the peer that is the quickest beside us has the largest ratio
            best[label] = max(having, key=lambda peer: by_peer[peer]["shapes"][label]["value"])
            to_best[label] = by_peer[best[label]]["shapes"][label]
    of_best = {label: paired(samples[ours], samples[peer], label) for label, peer in best.items()}
    return {
        "peers": by_peer,
        "best_peer": best,
        "to_best": to_best,
        "geometric_mean_to_best": asdict(geometric_ratio(of_best)),
        "worst_to_best": max(one["value"] for one in to_best.values()),
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


def _arm(name: str, samples: ArmSamples, facts: Json, labels: Sequence[str]) -> Json:
    """An arm: its configuration, its figures and its raw samples."""
    client, _, server = name.partition("+")
    of_labels = {label: samples.of(label) for label in labels}
    return {
        "name": name,
        "client": client,
        "server": server,
        **facts,
        "figures": {label: figures(plays) for label, plays in of_labels.items() if plays},
        "plays": [asdict(play) for play in samples.plays],
    }


def latencies_of(arm: Mapping[str, Any], label: str) -> dict[str, list[float]]:
    """Latencies of an arm of the file, by program, in the order of its plays."""
    found: dict[str, list[float]] = {}
    for play in arm["plays"]:
        if play["label"] == label:
            for sample in play["programs"]:
                found.setdefault(sample["name"], []).append(sample["latency_s"])
    return found


def interval_of(found: Mapping[str, float]) -> Interval:
    """An interval of the file."""
    return Interval(**found)

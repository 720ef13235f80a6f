"""Figures of a load: slowdown, goodput, fairness, prompts computed again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from agentrt.analysis.statistics import interval, jain, mean, percentiles
from agentrt.lab.bench.compound.arm_samples import PlayedRound
from agentrt.lab.bench.compound.figures import PlayedProgram, hit_rate
from agentrt.lab.bench.compound.ideal import PrefixTree
from agentrt.lab.bench.compound.plan import Round

SLOWDOWNS = (2.0, 3.0, 5.0, 10.0)
"""A program is in time if it takes at most so many times as long as alone."""
IN_TIME = 0.9
"""Share of programs that have to be in time for a rate to be sustained."""
Json = dict[str, Any]
Alone = Mapping[str, float]
"""Latency alone, by program."""


def counted(rounds: Sequence[Sequence[PlayedProgram]]) -> list[PlayedProgram]:
    """Samples without the first tenth of each round, which found the engine empty."""
    return [sample for one in rounds for sample in one[len(one) // 10 :]]


def load_figures(rounds: Sequence[Sequence[PlayedProgram]], alone_s: Alone, rate: float) -> Json:
    """Figures of one arm at one rate.

    Args:
        rounds: Samples in the order of arrival.
        alone_s: Latency alone, by program.
        rate: Programs a second that arrived.
    """
    samples = counted(rounds)
    slow, latencies = slowdowns(samples, alone_s), _latencies(samples)
    tenants: dict[str, list[float]] = {}
    for sample, by in zip(samples, slow, strict=True):
        tenants.setdefault(sample.tenant, []).append(1 / by)
    in_time = {f"{limit:g}": mean([by <= limit for by in slow]) for limit in SLOWDOWNS}
    return {
        "latency_s": {name: asdict(one) for name, one in percentiles(latencies).items()},
        "mean_latency_s": asdict(interval(latencies, mean)),
        "slowdown": {name: asdict(one) for name, one in percentiles(slow).items()},
        "mean_slowdown": asdict(interval(slow, mean)),
        "most_slowdown": max(slow),
        "in_time": in_time,
        "goodput": {limit: rate * share for limit, share in in_time.items()},
        "sustained": {limit: share >= IN_TIME for limit, share in in_time.items()},
        "fairness": jain([mean(speeds) for speeds in tenants.values()]),
        "fairness_of_programs": jain([1 / by for by in slow]),
        "hit_rate": hit_rate([sample for one in rounds for sample in one]),
    }


def prefill_figures(plays: Sequence[PlayedRound], rounds: Sequence[Round]) -> Json:
    """Prompt tokens that an engine computed, and those that no cache could have spared.

    Template tokens and the last part of a page count as computed again, in every arm alike.

    Args:
        plays: Plays of those rounds.
        rounds: The rounds, each with text of its own.
    """
    computed = sum(play.computed_tokens or 0 for play in plays)
    least = sum(PrefixTree().new_tokens(one.programs) for one in rounds)
    return {
        "steps": sum(play.steps or 0 for play in plays),
        "busy_s": sum(play.busy_s or 0.0 for play in plays),
        "computed_prompt_tokens": computed,
        "least_prompt_tokens": least,
        "redundant": computed / least - 1 if least else 0.0,
    }


def _latencies(samples: Sequence[PlayedProgram]) -> list[float]:
    return [sample.latency_s for sample in samples]


def slowdowns(samples: Sequence[PlayedProgram], alone_s: Alone) -> list[float]:
    """Latency divided by that alone, of each sample."""
    return [sample.latency_s / alone_s[sample.name] for sample in samples]

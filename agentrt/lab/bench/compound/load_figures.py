"""Figures of a load: slowdown, goodput, fairness, prompts computed again, and targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from agentrt.analysis.statistics import Interval, interval, jain, mean, percentile, percentiles
from agentrt.analysis.target import Target
from agentrt.lab.bench.compound.figures import PlayedProgram, hit_rate
from agentrt.lab.bench.compound.ideal import PrefixTree
from agentrt.lab.bench.compound.plan import Round
from agentrt.lab.workloads.step_sample import StepSample

SLOWDOWNS = (2.0, 5.0, 10.0)
"""A program is in time if it takes at most so many times as long as alone."""
IN_TIME = 0.9
"""Share of programs that have to be in time for a rate to be sustained."""
Json = dict[str, Any]
Alone = Mapping[str, float]
"""Latency alone, by program."""

_TARGETS: tuple[tuple[str, str, str, float], ...] = (
    ("mean latency", "rwa", "fcfs", 0.5),
    ("p99 slowdown", "rwa", "fcfs", 1.0),
    ("mean latency", "rwa", "oracle", 1.2),
)


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
    slow, latencies = _slowdowns(samples, alone_s), _latencies(samples)
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


def prefill_figures(steps: Sequence[StepSample], rounds: Sequence[Round]) -> Json:
    """Prompt tokens that an engine computed, and those that no cache could have spared.

    Template tokens and the last part of a page count as computed again, in every arm alike.

    Args:
        steps: Steps of the engine in those rounds.
        rounds: The rounds, each with text of its own.
    """
    computed = sum(step.prefill_tokens for step in steps)
    least = sum(PrefixTree().new_tokens(one.programs) for one in rounds)
    return {
        "steps": len(steps),
        "busy_s": sum(step.seconds for step in steps),
        "computed_prompt_tokens": computed,
        "least_prompt_tokens": least,
        "redundant": computed / least - 1 if least else 0.0,
    }


def targets(arms: Mapping[str, Sequence[Sequence[PlayedProgram]]], alone_s: Alone) -> list[Target]:
    """The targets between the arms that were played.

    Args:
        arms: By policy, the rounds of one rate; all played the same programs.
        alone_s: Latency alone, by program.
    """
    found = []
    for what, one, other, most in _TARGETS:
        if one in arms and other in arms:
            ours, theirs = counted(arms[one]), counted(arms[other])
            if what == "p99 slowdown":
                p99 = partial(percentile, share=0.99)
                ratio = _ratio(_slowdowns(ours, alone_s), _slowdowns(theirs, alone_s), p99)
            else:
                ratio = _ratio(_latencies(ours), _latencies(theirs), mean)
            found.append(Target(f"{what}, {one} by {other}", ratio, most))
    return found


def _ratio(
    ours: Sequence[float],
    theirs: Sequence[float],
    statistic: Callable[[Sequence[float]], float],
) -> Interval:
    """Ratio of a statistic over the same programs; the resampling draws programs, for both."""
    pairs = np.array([ours, theirs]).T
    return interval(pairs, lambda drawn: statistic(drawn[:, 0]) / statistic(drawn[:, 1]))


def _latencies(samples: Sequence[PlayedProgram]) -> list[float]:
    return [sample.latency_s for sample in samples]


def _slowdowns(samples: Sequence[PlayedProgram], alone_s: Alone) -> list[float]:
    return [sample.latency_s / alone_s[sample.name] for sample in samples]

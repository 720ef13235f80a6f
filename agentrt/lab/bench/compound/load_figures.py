"""What only a load tells: slowdown, goodput, fairness, what was computed again, and targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from agentrt.analysis.plot import Interval
from agentrt.analysis.statistics import interval, jain, mean, percentile, percentiles
from agentrt.analysis.target import Target
from agentrt.lab.arms.wire import StepTold
from agentrt.lab.bench.compound.figures import PlayedProgram, hit_rate
from agentrt.lab.bench.compound.ideal import PrefixTree
from agentrt.lab.bench.compound.plan import Round

SLOWDOWNS = (2.0, 5.0, 10.0)
"""A program is in time where it takes at most so many times what it takes alone."""
IN_TIME = 0.9
"""Share of programs that have to be in time for a rate to be sustained."""
_P99 = 0.99
Json = dict[str, Any]

_TARGETS: tuple[tuple[str, str, str, float], ...] = (
    ("mean latency", "rwa", "fcfs", 0.5),
    ("p99 slowdown", "rwa", "fcfs", 1.0),
    ("mean latency", "rwa", "oracle", 1.2),
)


def counted(rounds: Sequence[Sequence[PlayedProgram]]) -> list[PlayedProgram]:
    """Samples without the first tenth of each round, which found the engine empty."""
    return [sample for one in rounds for sample in one[len(one) // 10 :]]


def load_figures(
    rounds: Sequence[Sequence[PlayedProgram]], alone_s: Mapping[str, float], rate: float
) -> Json:
    """Of one arm at one rate.

    Args:
        rounds: Samples in the order of arrival.
        alone_s: By program, its latency alone.
        rate: Programs a second that arrived.
    """
    samples = counted(rounds)
    slow = [sample.latency_s / alone_s[sample.name] for sample in samples]
    tenants: dict[str, list[float]] = {}
    for sample, by in zip(samples, slow, strict=True):
        tenants.setdefault(sample.tenant, []).append(1 / by)
    latencies = [sample.latency_s for sample in samples]
    in_time = {limit: sum(by <= limit for by in slow) / len(slow) for limit in SLOWDOWNS}
    return {
        "latency_s": {name: asdict(one) for name, one in percentiles(latencies).items()},
        "mean_latency_s": asdict(interval(latencies, mean)),
        "slowdown": {name: asdict(one) for name, one in percentiles(slow).items()},
        "mean_slowdown": asdict(interval(slow, mean)),
        "most_slowdown": max(slow),
        "in_time": {f"{limit:g}": share for limit, share in in_time.items()},
        "goodput": {f"{limit:g}": rate * share for limit, share in in_time.items()},
        "sustained": {f"{limit:g}": share >= IN_TIME for limit, share in in_time.items()},
        "fairness": jain([mean(speeds) for speeds in tenants.values()]),
        "fairness_of_programs": jain([1 / by for by in slow]),
        "hit_rate": hit_rate([sample for one in rounds for sample in one]),
    }


def prefill_figures(steps: Sequence[StepTold], rounds: Sequence[Round]) -> Json:
    """How much prompt an engine computed, and how much of it a cache that forgets nothing spares.

    What templates add, and the last part of a page, count as computed again; in every arm alike.

    Args:
        steps: Of the engine in those rounds.
        rounds: That were played, each with text of its own.
    """
    computed = sum(prefill_tokens for _, prefill_tokens, *_ in steps)
    least = sum(new_tokens(one) for one in rounds)
    return {
        "steps": len(steps),
        "busy_s": sum(took_s for took_s, *_ in steps),
        "computed_prompt_tokens": computed,
        "least_prompt_tokens": least,
        "redundant": computed / least - 1 if least else 0.0,
    }


def new_tokens(one: Round) -> int:
    """Prompt tokens of a round that nobody has computed before it."""
    tree = PrefixTree()
    shares = (share for program in one.programs for share in tree.add(program).values())
    return sum(share.new_tokens for share in shares)


def verdicts(
    arms: Mapping[str, Sequence[Sequence[PlayedProgram]]], alone_s: Mapping[str, float]
) -> list[Target]:
    """Every target whose arms were played.

    Args:
        arms: By policy, the rounds of one rate; all played the same programs.
        alone_s: By program, its latency alone.
    """
    found = []
    for what, one, other, most in _TARGETS:
        if one in arms and other in arms:
            ours, theirs = counted(arms[one]), counted(arms[other])
            tail = what.startswith("p99")
            told = (
                _ratio(_slowdowns(ours, alone_s), _slowdowns(theirs, alone_s), _p99)
                if tail
                else _ratio(_latencies(ours), _latencies(theirs), mean)
            )
            found.append(Target(f"{what}, {one} by {other}", told, most))
    return found


_p99 = partial(percentile, share=_P99)


def _ratio(
    ours: Sequence[float],
    theirs: Sequence[float],
    statistic: Callable[[Sequence[float]], float],
) -> Interval:
    """Of a statistic over the same programs; the interval draws programs, and both with them."""

    def ratio(places: Sequence[float]) -> float:
        drawn = [int(place) for place in places]
        return statistic([ours[at] for at in drawn]) / statistic([theirs[at] for at in drawn])

    return interval([float(at) for at in range(len(ours))], ratio)


def _latencies(samples: Sequence[PlayedProgram]) -> list[float]:
    return [sample.latency_s for sample in samples]


def _slowdowns(samples: Sequence[PlayedProgram], alone_s: Mapping[str, float]) -> list[float]:
    return [sample.latency_s / alone_s[sample.name] for sample in samples]

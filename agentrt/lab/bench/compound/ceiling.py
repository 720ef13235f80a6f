"""The ceiling of a served arm: how much of its latency a run could spare that knows the program.

The ceiling is the bound by own steps, divided by the latency of the served arm. What lies between
it and 1 is the gap, of which our arm closes a share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from agentrt.analysis.statistics import geometric_mean
from agentrt.lab.arms.arm_process import OURS
from agentrt.lab.bench.compound.arm_samples import ArmSamples

Json = dict[str, Any]
KINDS = {"steps_s": "ceiling", "guessed_s": "ceiling_with_guesses"}
"""Bounds of programs, each with the name of its ceiling."""


def ceilings(samples: Mapping[str, ArmSamples], bounds: Json, comparison: Json) -> Json:
    """By served arm and shape, both ceilings, the gap below 1 and the share that ours closes.

    Args:
        samples: Samples of all arms.
        bounds: Bounds as `bounds_of` gives them.
        comparison: Ratios of our arm to the others.
    """
    found: Json = {}
    for peer, compared in comparison["peers"].items():
        if peer.startswith(OURS):
            continue
        for label, ratio in compared["shapes"].items():
            programs = bounds.get("shapes", {}).get(label, {}).get("programs", {})
            served_s = _latencies(samples[peer], label)
            known = [name for name in programs if name in served_s]
            if not known or any(programs[name]["steps_s"] is None for name in known):
                continue
            one: Json = {"ours": ratio["value"], "programs": len(known)}
            for kind, ceiling in KINDS.items():
                shares = [programs[name][kind] / served_s[name] for name in known]
                one[ceiling] = gap_of(geometric_mean(shares), ratio["value"])
            found.setdefault(peer, {})[label] = one
    return found


def gap_of(ceiling: float, ours: float) -> Json:
    """A ceiling, the gap below 1, and the share of it that a ratio closes; None without a gap."""
    gap = 1 - ceiling
    return {"value": ceiling, "gap": gap, "closed": (1 - ours) / gap if gap > 0 else None}


def ceilings_in_words(found: Mapping[str, Any]) -> Iterator[str]:
    """A line for each served arm and shape."""
    for peer, shapes in found.get("ceilings", {}).items():
        for label, one in shapes.items():
            shown = ", ".join(
                f"{name.replace('_', ' ')} {one[name]['value']:.3f}, gap {one[name]['gap']:.3f}, "
                f"closed {_percent(one[name]['closed'])}"
                for name in KINDS.values()
            )
            yield f"{label}, ours by {peer}: {one['ours']:.3f}; {shown}."


def guesses_in_words(found: Mapping[str, Any]) -> Iterator[str]:
    """A line for each arm and shape with guessed tokens: how many it kept, by source."""
    for arm in found["arms"]:
        for label, figures in arm["figures"].items():
            work = figures["work"]
            kept = [
                f"{tokens:,} by {source}" for source, tokens in work["drafts"].items() if tokens
            ]
            if kept:
                tokens = work["output_tokens"]
                yield f"{label}, {arm['name']}: of {tokens:,} tokens guessed {', '.join(kept)}."


def _latencies(samples: ArmSamples, label: str) -> dict[str, float]:
    """Mean latency of each program."""
    found: dict[str, list[float]] = {}
    for sample in samples.all(label):
        found.setdefault(sample.name, []).append(sample.latency_s)
    return {name: fmean(latencies) for name, latencies in found.items()}


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"

"""Rules of a tuning, from the flags of `agentrt tune`."""

from __future__ import annotations

from collections.abc import Sequence

from agentrt.base.errors import UsageError
from agentrt.lab.evaluation.limit import Figure, Limit, parse_limit
from agentrt.lab.tuning.tuning_rules import OBJECTIVES, TuningRules

DEFAULT_LIMIT = "score<-1%"
"""Limit of answers if none is given: a fall of the score by more than a point."""
_ANSWERS = ("accuracy", "score", "fidelity")


def read_rules(
    fail_if: Sequence[str],
    slo_s: float | None,
    objective: str,
    *,
    first_cases: int,
    most_plays: int | None,
    most_turns: int,
    seed: int,
) -> TuningRules:
    """The rules that flags describe.

    Args:
        fail_if: Limits, as those of `agentrt eval`.
        slo_s: Highest p95 in seconds; None sets none.
        objective: "p50", "p95" or "cost".
        first_cases: Cases before the first comparison.
        most_plays: Most runs of a case; None sets no bound.
        most_turns: Most turns of a finalist; 0 has no final.
        seed: Seed of the intervals.

    Raises:
        UsageError: A text is no limit or no objective.

    Example:
        >>> read_rules([], 2.0, "p50", first_cases=4, most_plays=None, most_turns=8,
        ...            seed=0).limits[0].text
        'score<-1%'
    """
    limits = [parse_limit(one) for one in fail_if]
    if not any(one.figure in _ANSWERS for one in limits):
        limits.append(parse_limit(DEFAULT_LIMIT))
    figures: dict[str, Figure] = {one.removeprefix("latency_"): one for one in OBJECTIVES}
    if objective not in figures:
        raise UsageError(f"--objective {objective!r} is unknown", hint=f"give {', '.join(figures)}")
    figure = figures[objective]
    return TuningRules(tuple(limits), slo_s, figure, first_cases, most_plays, seed, most_turns)


def cost_limits(rules: TuningRules) -> list[Limit]:
    """The limits, and one of the cost if the cost is to be lowest: they need prices alike."""
    if rules.objective != "cost":
        return list(rules.limits)
    return [*rules.limits, Limit("cost", True, 0.0, False, "cost (--objective)")]

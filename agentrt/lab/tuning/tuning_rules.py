"""Rules that a tuned configuration keeps: limits of fidelity and an SLO; what proves a breach.

A breach is proven in two ways. By arithmetic: even if the cases that have not run went as well as
they can, the limit would be crossed. By chance: the 95 % interval over the cases that have run is
beyond the limit as a whole. With all cases run, the figure itself decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from agentrt.analysis.statistics import interval, mean, percentile
from agentrt.base.money import PICO
from agentrt.base.record import record
from agentrt.lab.evaluation.case_result import CaseResult
from agentrt.lab.evaluation.config_summary import is_same
from agentrt.lab.evaluation.limit import SHARES, Figure, Limit
from agentrt.lab.evaluation.paired import paired_change, paired_difference

OBJECTIVES: tuple[Figure, ...] = ("latency_p50", "latency_p95", "cost")
"""Figures that can be the lowest."""
LATENCY_SHARES: dict[Figure, float] = {"latency_p50": 0.5, "latency_p95": 0.95}
"""Percentile of each figure of latency."""
_ROUNDING = 1e-9

Rows = Sequence[CaseResult]


@record
class TuningRules:
    """Rules of a search, and its sizes.

    Attributes:
        limits: Limits as those of `--fail-if`, against the baseline if they are relative.
        slo_s: Highest p95 of the compound latency, in seconds; None sets none.
        objective: Figure that is to be lowest.
        first_cases: Cases after which configurations are compared for the first time.
        most_plays: Most runs of a case in all; None sets no bound.
        most_turns: Most turns of a finalist; more if its cases are fewer than six. 0 has no final.
        seed: Seed of the intervals.
    """

    limits: tuple[Limit, ...] = ()
    slo_s: float | None = None
    objective: Figure = "latency_p50"
    first_cases: int = 4
    most_plays: int | None = None
    seed: int = 0
    most_turns: int = 8


def breach(first: Rows, rows: Rows, rules: TuningRules) -> str:
    """How a configuration is proven to break a rule, in words; "" if it is not.

    Args:
        first: Results of the baseline for all cases.
        rows: Results of the configuration for the first cases, at least one.
        rules: The rules.
    """
    after = f"after {len(rows)} of {len(first)} cases"
    if rules.slo_s is not None:
        slow = [row.latency_s for row in rows]
        at_best = percentile(slow + [0.0] * (len(first) - len(rows)), 0.95)
        found = percentile(slow, 0.95)
        if at_best > rules.slo_s or (
            found > rules.slo_s and _p95_low(slow, rules.seed) > rules.slo_s
        ):
            return f"p95 of {found:.3g} s {after}, above the SLO of {rules.slo_s:g} s"
    for limit in rules.limits:
        found = _figure(first[: len(rows)], rows, limit)
        if _crossed(limit, _at_best(first, rows, limit)) or (
            len(rows) < len(first) and _surely_crossed(first, rows, limit, found, rules.seed)
        ):
            told = f"{found:+.1%}" if limit.relative else f"{found:.4g}"
            return f"{limit.text}: {told} {after}"
    return ""


def objective_of(rows: Rows, figure: Figure) -> float:
    """The figure that is to be lowest, over some cases."""
    return _statistic(_values(rows, rows, figure), figure)


def clearly_higher(one: Rows, other: Rows, figure: Figure, seed: int) -> bool:
    """Whether the interval of the change from one configuration to another is above zero.

    Args:
        one: Results of the configuration that is taken for the better one.
        other: Results of the other one, for the same cases.
        figure: One of `OBJECTIVES`.
        seed: Seed of the interval.
    """
    first, second = _values(one, one, figure), _values(other, other, figure)
    if _statistic(second, figure) <= _statistic(first, figure):
        return False
    return paired_change(first, second, LATENCY_SHARES.get(figure), seed).low > 0


def _p95_low(slow: Sequence[float], seed: int) -> float:
    return interval(slow, partial(percentile, share=0.95), seed).low


def _crossed(limit: Limit, value: float) -> bool:
    """Whether a value is beyond a limit, by more than sums of floats are off."""
    slack = _ROUNDING if limit.above else -_ROUNDING
    return not math.isnan(value) and limit.crossed_by(value - slack)


def _surely_crossed(first: Rows, rows: Rows, limit: Limit, found: float, seed: int) -> bool:
    """Whether the interval of a change is beyond a limit as a whole."""
    if not limit.relative or not _crossed(limit, found):
        return False
    one = _values(first[: len(rows)], first[: len(rows)], limit.figure)
    other = _values(first[: len(rows)], rows, limit.figure)
    if limit.figure in SHARES:
        change = paired_difference(one, other, seed)
    else:
        change = paired_change(one, other, LATENCY_SHARES.get(limit.figure), seed)
    return _crossed(limit, change.low if limit.above else change.high)


def _figure(first: Rows, rows: Rows, limit: Limit) -> float:
    """The value, or the change, that a limit bounds."""
    return _bounded(_values(first, first, limit.figure), _values(first, rows, limit.figure), limit)


def _at_best(first: Rows, rows: Rows, limit: Limit) -> float:
    """The same if every case that has not run goes as well as it can."""
    if limit.figure in SHARES:
        best = 0.0 if limit.above else 1.0
    else:
        best = 0.0 if limit.above else math.inf
    rest = [best] * (len(first) - len(rows))
    values = _values(first[: len(rows)], rows, limit.figure)
    return _bounded(_values(first, first, limit.figure), values + rest, limit)


def _bounded(first: Sequence[float], values: Sequence[float], limit: Limit) -> float:
    value = _statistic(values, limit.figure)
    if not limit.relative:
        return value
    before = _statistic(first, limit.figure)
    if limit.figure in SHARES:
        return value - before
    return value / before - 1 if before else math.nan


def _statistic(values: Sequence[float], figure: Figure) -> float:
    if figure in LATENCY_SHARES:
        return percentile(values, LATENCY_SHARES[figure])
    return mean(values) if figure in SHARES else float(sum(values))


def _values(first: Rows, rows: Rows, figure: Figure) -> list[float]:
    """The value of a figure for each case."""
    if figure in LATENCY_SHARES:
        return [row.latency_s for row in rows]
    if figure == "cost":
        return [row.cost_pico / PICO for row in rows]
    if figure == "score":
        return [row.score for row in rows]
    if figure == "accuracy":
        return [float(row.passed) for row in rows]
    return [float(is_same(a, b)) for a, b in zip(first, rows, strict=True)]

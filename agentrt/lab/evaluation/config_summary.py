"""Figures of a configuration over the cases of a suite, alone and against the first one."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from agentrt.analysis.statistics import Interval, mean, percentile
from agentrt.base.money import PICO
from agentrt.base.record import record
from agentrt.lab.evaluation.case_result import CaseResult
from agentrt.lab.evaluation.limit import SHARES, Figure, Limit
from agentrt.lab.evaluation.paired import (
    mcnemar,
    paired_change,
    paired_difference,
    pareto_front,
    wilson,
)


@record
class Comparison:
    """A configuration against the first one, over the same cases.

    Attributes:
        lost: Cases that only the first one passes.
        won: Cases that only this one passes.
        p: Two-sided p of McNemar's exact test.
        changes: Change of each figure with its 95 % interval: differences of shares, relative
            changes of latencies and costs.
    """

    lost: tuple[str, ...]
    won: tuple[str, ...]
    p: float
    changes: dict[Figure, Interval]


@record
class ConfigSummary:
    """Figures of one configuration.

    Attributes:
        config: Name of the configuration.
        count: Cases.
        accuracy: Share of the cases that pass, with Wilson's interval.
        errors: Cases whose run raised.
        values: Each figure: shares, seconds, and units of the currency for all cases together.
        currency: Currency of the costs; "" without prices.
        judge_cost: Cost of the judges of its results, which is no cost of its own.
        judge_currency: Currency of that cost; "" without prices.
        comparison: Comparison against the first configuration; None for the first one.
        on_front: Whether no other configuration is as good in accuracy, latency and cost and better
            in one of them.
    """

    config: str
    count: int
    accuracy: Interval
    errors: int
    values: dict[Figure, float]
    currency: str
    judge_cost: float
    judge_currency: str
    comparison: Comparison | None
    on_front: bool


def summarise(results: Sequence[Sequence[CaseResult]], seed: int) -> list[ConfigSummary]:
    """Summaries of configurations that ran the same cases.

    Args:
        results: Results of each configuration, cases in the same order; the first one is what the
            others are held against.
        seed: Seed of the resampling.
    """
    first = results[0]
    values = [_values(first, rows) for rows in results]
    front = pareto_front([(-v["accuracy"], v["latency_p50"], v["cost"]) for v in values])
    return [
        ConfigSummary(
            rows[0].config,
            len(rows),
            wilson(sum(row.passed for row in rows), len(rows)),
            sum(bool(row.error) for row in rows),
            values[index],
            next((row.currency for row in rows if row.currency), ""),
            sum(row.judge_cost_pico for row in rows) / PICO,
            next((row.judge_currency for row in rows if row.judge_currency), ""),
            compare(first, rows, seed) if index else None,
            index in front,
        )
        for index, rows in enumerate(results)
    ]


def compare(first: Sequence[CaseResult], second: Sequence[CaseResult], seed: int) -> Comparison:
    """The comparison of two configurations over the same cases, in the same order."""
    pairs = list(zip(first, second, strict=True))
    lost = tuple(a.case for a, b in pairs if a.passed and not b.passed)
    won = tuple(a.case for a, b in pairs if b.passed and not a.passed)
    same = [float(is_same(a, b)) for a, b in pairs]
    slow = [row.latency_s for row in first], [row.latency_s for row in second]
    paid = [row.cost_pico / PICO for row in first], [row.cost_pico / PICO for row in second]
    passed = [float(row.passed) for row in first], [float(row.passed) for row in second]
    return Comparison(
        lost,
        won,
        mcnemar(len(lost), len(won)),
        {
            "accuracy": paired_difference(*passed, seed),
            "score": paired_difference([a.score for a in first], [b.score for b in second], seed),
            "fidelity": paired_difference([1.0] * len(same), same, seed),
            "latency_p50": paired_change(*slow, 0.5, seed),
            "latency_p95": paired_change(*slow, 0.95, seed),
            "cost": paired_change(*paid, None, seed),
        },
    )


def is_same(one: CaseResult, other: CaseResult) -> bool:
    """Whether two results are the same value; errors are, if they are of one type."""
    if one.error or other.error:
        return one.error.partition(":")[0] == other.error.partition(":")[0]
    return json.dumps(one.value, sort_keys=True) == json.dumps(other.value, sort_keys=True)


def crossed(summaries: Sequence[ConfigSummary], limits: Sequence[Limit]) -> list[str]:
    """The limits that configurations cross, one line each.

    A relative limit is held against every configuration but the first. It is crossed if the change
    is beyond its bound and its interval leaves out no change at all: what chance explains does not
    fail. An absolute one is crossed by the figure itself, in any configuration.
    """
    lines: list[str] = []
    for limit in limits:
        for one in summaries:
            if not limit.relative:
                found = Interval(*[one.values[limit.figure]] * 3)
            elif one.comparison is not None:
                found = one.comparison.changes[limit.figure]
            else:
                continue
            certain = not limit.relative or not found.low <= 0 <= found.high
            if certain and limit.crossed_by(found.value):
                lines.append(f"{one.config}: {limit.text}, {figure_text(limit, found)}")
    return lines


def figure_text(limit: Limit, found: Interval) -> str:
    """The figure that a limit is held against, as text."""
    if limit.relative:
        return f"it is {found:+.1%}"
    if limit.figure in SHARES:
        return f"it is {found.value:.1%}"
    return f"it is {found.value:.4g}{' s' if limit.figure.startswith('latency') else ''}"


def summary_data(one: ConfigSummary) -> dict[str, Any]:
    """A summary as JSON-like data; what is not a number is null."""
    told = one.comparison
    return {
        "config": one.config,
        "cases": one.count,
        "errors": one.errors,
        "accuracy": interval_data(one.accuracy),
        "figures": dict(one.values),
        "currency": one.currency,
        "judge_cost": one.judge_cost,
        "judge_currency": one.judge_currency,
        "pareto": one.on_front,
        "against_first": None
        if told is None
        else {
            "lost": list(told.lost),
            "won": list(told.won),
            "mcnemar_p": told.p,
            "changes": {name: interval_data(found) for name, found in told.changes.items()},
        },
    }


def interval_data(found: Interval) -> dict[str, float] | None:
    """An interval as JSON-like data; None if it is not a number."""
    if math.isnan(found.value):
        return None
    return {"value": found.value, "low": found.low, "high": found.high}


def _values(first: Sequence[CaseResult], rows: Sequence[CaseResult]) -> dict[Figure, float]:
    slow = [row.latency_s for row in rows]
    return {
        "accuracy": mean([float(row.passed) for row in rows]),
        "score": mean([row.score for row in rows]),
        "fidelity": mean([float(is_same(a, b)) for a, b in zip(first, rows, strict=True)]),
        "latency_p50": percentile(slow, 0.5),
        "latency_p95": percentile(slow, 0.95),
        "cost": sum(row.cost_pico for row in rows) / PICO,
    }

"""What a validation found, as JSON and as a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from agentrt.analysis.html_page import page, table
from agentrt.analysis.plot import Interval, PlotLine, lines
from agentrt.lab.sim.ranking import Ranking
from agentrt.lab.sim.validate import LEAST_TAU, MOST_ERROR, Validation, ValidationCase

SCHEMA = "agentrt.sim.validation/3"


def to_json(found: Validation, about: Mapping[str, Any]) -> dict[str, Any]:
    """All of it, with every latency."""
    return {
        "schema": SCHEMA,
        **about,
        "targets": {"most_error": MOST_ERROR, "least_tau": LEAST_TAU},
        "within": {"p50": found.within(0.5), "p95": found.within(0.95)},
        "repeats_within": {"p50": found.repeats_within(0.5), "p95": found.repeats_within(0.95)},
        "rankings": [_ranking(rate, one) for rate, one in found.rankings.items()],
        "cases": [_case(case) for case in found.cases],
    }


def _ranking(rate: float, ranking: Ranking) -> dict[str, Any]:
    return {
        "rate": rate,
        "tau_of_ranked_pairs": ranking.tau,
        "tau_of_all_means": ranking.plain_tau,
        "pairs": [
            {**asdict(pair), "ranked": pair.is_ranked, "agrees": pair.agrees}
            for pair in ranking.pairs
        ],
    }


def _case(case: ValidationCase) -> dict[str, Any]:
    errors = {f"p{round(100 * share)}": share for share in (0.5, 0.95)}
    return {
        "policy": case.policy,
        "rate": case.rate,
        "paces": [asdict(pace) for pace in case.paces],
        "mean_error": case.mean_error,
        "error": {name: asdict(case.error(share)) for name, share in errors.items()},
        "unpaced_error": {
            name: asdict(case.unpaced_error(share)) for name, share in errors.items()
        },
        "repeat_error": {name: case.repeat_error(share) for name, share in errors.items()},
        "paced_repeat_error": {
            name: case.repeat_error(share, paced=True) for name, share in errors.items()
        },
        "terms": {
            name: {"measured": measured, "simulated": simulated}
            for name, (measured, simulated) in case.terms.items()
        },
        "measured_s": case.measured_s.tolist(),
        "simulated_s": case.simulated_s.tolist(),
        "unpaced_s": case.unpaced_s.tolist(),
    }


def validation_page(found: Validation, about: Mapping[str, Any]) -> str:
    """All of it as HTML."""
    series = []
    for policy in dict.fromkeys(case.policy for case in found.cases):
        here = [case for case in found.cases if case.policy == policy]
        for name, of in (("measured", "measured_s"), ("simulated", "simulated_s")):
            points = tuple((case.rate, float(getattr(case, of).mean())) for case in here)
            series.append(PlotLine(f"{policy}, {name}", points, dashed=name == "simulated"))
    parts = [
        _errors(found),
        _orders(found),
        lines("Mean latency", series, x="programs a second", y="seconds", log_y=True),
        _terms(found),
        _costs(about),
    ]
    return page("The simulator against the engine", parts)


def _errors(found: Validation) -> str:
    head = (
        "policy",
        "programs a second",
        "measured, s",
        "simulated, s",
        "p50",
        "p95",
        "p50 unpaced",
        "p95 unpaced",
        "p50 of repeats",
        "p95 of repeats",
        "p50 of repeats, paced",
        "p95 of repeats, paced",
        "steps at",
        "gaps at",
    )
    rows = [
        (
            case.policy,
            f"{case.rate:.3g}",
            f"{case.measured_s.mean():.3f}",
            f"{case.simulated_s.mean():.3f}",
            _told(case.error(0.5)),
            _told(case.error(0.95)),
            f"{case.unpaced_error(0.5).value:+.1%}",
            f"{case.unpaced_error(0.95).value:+.1%}",
            *(
                f"{case.repeat_error(share, paced=paced):.1%}"
                for paced in (False, True)
                for share in (0.5, 0.95)
            ),
            ", ".join(f"{pace.step:.2f}" for pace in case.paces),
            ", ".join(f"{pace.gap:.2f}" for pace in case.paces),
        )
        for case in found.cases
    ]
    return table(head, rows)


def _orders(found: Validation) -> str:
    head = ("programs a second", "policies", "measured", "simulated", "ranked", "agree")
    rows = [
        (
            f"{rate:.3g}",
            f"{pair.one} by {pair.other}",
            _told(pair.measured),
            f"{pair.simulated:+.1%}",
            "yes" if pair.is_ranked else "no",
            ("yes" if pair.agrees else "no") if pair.is_ranked else "",
        )
        for rate, ranking in found.rankings.items()
        for pair in ranking.pairs
    ]
    taus = [
        (f"{rate:.3g}", _tau(ranking), f"{ranking.plain_tau:.2f}")
        for rate, ranking in found.rankings.items()
    ]
    shown = table(("programs a second", "tau of ranked pairs", "tau of all means"), taus)
    return shown + table(head, rows)


def _tau(ranking: Ranking) -> str:
    return "no pair is ranked" if ranking.tau is None else f"{ranking.tau:.2f}"


def _terms(found: Validation) -> str:
    """Measured and simulated, of the first policy at each load."""
    rows = [
        (case.policy, f"{case.rate:.3g}", name, f"{measured:.4g}", f"{simulated:.4g}")
        for case in found.cases
        for name, (measured, simulated) in case.terms.items()
    ]
    return table(("policy", "programs a second", "term", "measured", "simulated"), rows)


def _costs(about: Mapping[str, Any]) -> str:
    """What was calibrated."""
    costs = about.get("costs", {})
    rows = [
        (name, f"{value:.4g}")
        for name, value in {**costs.get("step", {}), **costs}.items()
        if isinstance(value, int | float)
    ]
    return table(("calibrated", "value"), rows)


def _told(interval: Interval) -> str:
    return f"{interval.value:+.1%} ({interval.low:+.1%} to {interval.high:+.1%})"

"""The result of a validation, as a file and as a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from agentrt.analysis.html_page import page, table, table_of
from agentrt.analysis.plot import PlotLine, lines
from agentrt.lab.result_file import header
from agentrt.lab.sim.ranking import Pair, Ranking
from agentrt.lab.sim.validate import LEAST_TAU, MOST_ERROR, Validation, ValidationCase

SCHEMA = "agentrt.sim.validation/3"
_SHARES = {"p50": 0.5, "p95": 0.95}


def to_json(found: Validation, about: Mapping[str, Any]) -> dict[str, Any]:
    """The content of the file of a validation, with every latency."""
    return {
        **header(SCHEMA),
        **about,
        "targets": {"most_error": MOST_ERROR, "least_tau": LEAST_TAU},
        "within": {name: found.within(share) for name, share in _SHARES.items()},
        "repeats_within": {name: found.repeats_within(share) for name, share in _SHARES.items()},
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
    def errors(error: Callable[[float], Any]) -> dict[str, Any]:
        return {name: error(share) for name, share in _SHARES.items()}

    return {
        "policy": case.policy,
        "rate": case.rate,
        "paces": [asdict(pace) for pace in case.paces],
        "mean_error": case.mean_error,
        "error": errors(lambda share: asdict(case.error(share))),
        "unpaced_error": errors(lambda share: asdict(case.unpaced_error(share))),
        "repeat_error": errors(case.repeat_error),
        "paced_repeat_error": errors(lambda share: case.repeat_error(share, paced=True)),
        "terms": {
            name: {"measured": measured, "simulated": simulated}
            for name, (measured, simulated) in case.terms.items()
        },
        "measured_s": case.measured_s.tolist(),
        "simulated_s": case.simulated_s.tolist(),
        "unpaced_s": case.unpaced_s.tolist(),
    }


def validation_page(found: Validation, about: Mapping[str, Any]) -> str:
    """The page of a validation."""
    series = []
    for policy in dict.fromkeys(case.policy for case in found.cases):
        here = [case for case in found.cases if case.policy == policy]
        for name, of in (("measured", "measured_s"), ("simulated", "simulated_s")):
            points = tuple((case.rate, float(getattr(case, of).mean())) for case in here)
            series.append(PlotLine(f"{policy}, {name}", points, dashed=name == "simulated"))
    parts = [
        _errors(found),
        _taus(found),
        _orders(found),
        lines("Mean latency", series, x="programs a second", y="seconds", log_y=True),
        _terms(found),
        _costs(about),
    ]
    return page("The simulator against the engine", parts)


def _errors(found: Validation) -> str:
    columns: dict[str, Callable[[ValidationCase], str]] = {
        "policy": lambda case: case.policy,
        "programs a second": lambda case: f"{case.rate:.3g}",
        "measured, s": lambda case: f"{case.measured_s.mean():.3f}",
        "simulated, s": lambda case: f"{case.simulated_s.mean():.3f}",
        "p50": lambda case: f"{case.error(0.5):+.1%}",
        "p95": lambda case: f"{case.error(0.95):+.1%}",
        "p50 unpaced": lambda case: f"{case.unpaced_error(0.5).value:+.1%}",
        "p95 unpaced": lambda case: f"{case.unpaced_error(0.95).value:+.1%}",
        "p50 of repeats": lambda case: f"{case.repeat_error(0.5):.1%}",
        "p95 of repeats": lambda case: f"{case.repeat_error(0.95):.1%}",
        "p50 of repeats, paced": lambda case: f"{case.repeat_error(0.5, paced=True):.1%}",
        "p95 of repeats, paced": lambda case: f"{case.repeat_error(0.95, paced=True):.1%}",
        "steps at": lambda case: ", ".join(f"{pace.step:.2f}" for pace in case.paces),
        "gaps at": lambda case: ", ".join(f"{pace.gap:.2f}" for pace in case.paces),
    }
    return table_of(found.cases, columns)


def _taus(found: Validation) -> str:
    columns: dict[str, Callable[[tuple[float, Ranking]], str]] = {
        "programs a second": lambda one: f"{one[0]:.3g}",
        "tau of ranked pairs": lambda one: _tau(one[1]),
        "tau of all means": lambda one: f"{one[1].plain_tau:.2f}",
    }
    return table_of(found.rankings.items(), columns)


def _tau(ranking: Ranking) -> str:
    return "no pair is ranked" if ranking.tau is None else f"{ranking.tau:.2f}"


def _orders(found: Validation) -> str:
    columns: dict[str, Callable[[tuple[float, Pair]], str]] = {
        "programs a second": lambda one: f"{one[0]:.3g}",
        "policies": lambda one: f"{one[1].one} by {one[1].other}",
        "measured": lambda one: f"{one[1].measured:+.1%}",
        "simulated": lambda one: f"{one[1].simulated:+.1%}",
        "ranked": lambda one: _yes(one[1].is_ranked),
        "agree": lambda one: _yes(one[1].agrees) if one[1].is_ranked else "",
    }
    pairs = ((rate, pair) for rate, ranking in found.rankings.items() for pair in ranking.pairs)
    return table_of(pairs, columns)


def _terms(found: Validation) -> str:
    rows = (
        (case.policy, f"{case.rate:.3g}", name, f"{measured:.4g}", f"{simulated:.4g}")
        for case in found.cases
        for name, (measured, simulated) in case.terms.items()
    )
    return table(("policy", "programs a second", "term", "measured", "simulated"), rows)


def _costs(about: Mapping[str, Any]) -> str:
    """The calibrated costs."""
    costs = about.get("costs", {})
    rows = (
        (name, f"{value:.4g}")
        for name, value in {**costs.get("step", {}), **costs}.items()
        if isinstance(value, int | float)
    )
    return table(("calibrated", "value"), rows)


def _yes(value: bool) -> str:
    return "yes" if value else "no"

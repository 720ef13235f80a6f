"""Targets of the default policy under load, against the baseline and against the bound."""

from __future__ import annotations

from agentrt.analysis.target import Target
from agentrt.lab.sim.load import BASELINE, GOOD_SHARE, SLO_SLOWDOWN, LoadCurves

OURS, BOUND = "rwa", "clairvoyant"


def load_targets(found: LoadCurves) -> list[Target]:
    """The targets between the arms that were measured; a ratio below 1 is a gain."""
    targets: list[Target] = []
    has_curves = len(found.rates) > 1
    if {OURS, BASELINE} <= found.points.keys():
        targets += [
            _ratio(found, BASELINE, "mean_slowdown", 0.6),
            _ratio(found, BASELINE, "mean_latency_s", 0.8),
            _ratio(found, BASELINE, "p99_slowdown", 1.0),
        ]
        targets += [_capacity(found, BASELINE, 1 / 1.4)] * has_curves
    if {OURS, BOUND} <= found.points.keys():
        targets += [
            _ratio(found, BOUND, "mean_slowdown", 1.15),
            _ratio(found, BOUND, "mean_latency_s", 1.15),
        ]
        targets += [_capacity(found, BOUND, 1 / 0.9)] * has_curves
    return targets


def _ratio(found: LoadCurves, other: str, figure: str, most: float) -> Target:
    words = figure.removesuffix("_s").replace("_", " ")
    return Target(f"{words}, {OURS} by {other}", found.ratio(OURS, other, figure), most)


def _capacity(found: LoadCurves, other: str, most: float) -> Target:
    what = f"rate with {GOOD_SHARE:.0%} within {SLO_SLOWDOWN:g} times alone, {other} by {OURS}"
    return Target(what, found.capacity_ratio(other, OURS), most)

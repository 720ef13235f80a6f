"""Load as curves: policies at the same rates, around the one at which a gated queue is slow.

A concurrency limit alone takes most of the harm out of load, and any client with a semaphore has
one. So the baseline is `fcfs+gate`, and the rate is where that is several times slower than alone:
one rate for all draws, at which the mean over them has the slowdown. All arms serve the same
programs at the same instants, with estimates learned from other draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from statistics import fmean

import numpy as np

from agentrt.analysis.statistics import Floats, Interval, interval
from agentrt.base.record import record
from agentrt.lab.operating_point import RateProbe, RateSearch, find_rate
from agentrt.lab.progress import WorkPace
from agentrt.lab.sim.arms import SimArm, arms_named
from agentrt.lab.sim.draw_workers import DrawPlay
from agentrt.lab.sim.study import StudyPoint

BASELINE = "fcfs+gate"
SLO_SLOWDOWN = 3.0
"""A program within the SLO takes at most so many times as long as alone."""

GOOD_SHARE = 0.9
"""Share of programs within the SLO that an engine has to reach at a rate."""

SEARCH = RateSearch(near=0.08, factor=1.15, most_halvings=2)

Log = Callable[[str], None]
Serve = Callable[[Sequence[DrawPlay]], Sequence[Future[StudyPoint]]]
"""Begins plays; see `DrawWorkers.serve`."""


def good_share(point: StudyPoint) -> float:
    """Share of a draw's programs within the SLO."""
    return float(np.mean(point.slowdown <= SLO_SLOWDOWN))


Figure = Callable[[StudyPoint], float]
FIGURES: Mapping[str, Figure] = {
    "mean_slowdown": lambda point: point.mean_slowdown,
    "mean_latency_s": lambda point: point.mean_latency_s,
    "p99_slowdown": lambda point: point.p99_slowdown,
    "good_share": good_share,
    "goodput": lambda point: point.rate * good_share(point),
}
"""Figures of a draw; that of several draws is their mean."""


@record
class LoadCurves:
    """Every arm at every rate on every draw.

    Attributes:
        kv_tokens: Memory of the engine.
        rate: Programs a second at which the baseline has the slowdown that was asked for.
        tried: Rates tried for that, each with the baseline's mean slowdown.
        points: By arm and rate, a point for each draw.
    """

    kv_tokens: int
    rate: float
    tried: tuple[RateProbe, ...]
    points: Mapping[str, Mapping[float, Sequence[StudyPoint]]]

    @property
    def rates(self) -> tuple[float, ...]:
        """All rates, the lowest first."""
        return tuple(sorted(next(iter(self.points.values()))))

    def table(self, arm: str, figure: str) -> Floats:
        """`[rates, draws]` of a figure."""
        of = FIGURES[figure]
        rows = self.points[arm]
        return np.array([[of(point) for point in rows[rate]] for rate in self.rates])

    def at_rate(self, arm: str, figure: str, rate: float | None = None) -> Interval:
        """Mean of a figure over the draws, at the rate of the comparison or another."""
        row = self.rates.index(self.rate if rate is None else rate)
        return interval(self.table(arm, figure)[row], lambda values: float(values.mean()))

    def ratio(self, one: str, other: str, figure: str) -> Interval:
        """Mean of one arm divided by that of the other, at the rate of the comparison.

        Draws are drawn again, each with both arms.
        """
        row = self.rates.index(self.rate)
        pairs = np.stack([self.table(arm, figure)[row] for arm in (one, other)], axis=1)
        return interval(pairs, lambda rows: float(rows[:, 0].mean() / rows[:, 1].mean()))

    def capacity(self, arm: str) -> Interval:
        """Rate at which 90 % of the programs are within the SLO, between the rates measured."""
        shares = self.table(arm, "good_share").T
        return interval(shares, lambda rows: rate_at(self.rates, rows.mean(axis=0), GOOD_SHARE))

    def capacity_ratio(self, one: str, other: str) -> Interval:
        """The rate within the SLO of one arm divided by the other's, resampled with both."""
        tables = [self.table(arm, "good_share").T for arm in (one, other)]
        both = np.stack(tables, axis=1)

        def ratio(rows: Floats) -> float:
            first, second = (
                rate_at(self.rates, rows[:, at].mean(axis=0), GOOD_SHARE) for at in (0, 1)
            )
            return first / second

        return interval(both, ratio)


def rate_at(rates: Sequence[float], shares: Floats, share: float) -> float:
    """The rate down to which a falling share stays, linear between two rates.

    The lowest or the highest rate if the share is crossed outside of them.
    """
    for at, found in enumerate(shares):
        if found < share:
            if at == 0:
                return rates[0]
            before = float(shares[at - 1])
            part = (before - share) / (before - float(found))
            return rates[at - 1] + part * (rates[at] - rates[at - 1])
    return rates[-1]


def load_curves(
    serve: Serve,
    arms: Sequence[SimArm],
    *,
    kv_tokens: int,
    draws: int,
    slowdown: float,
    first_rate: float,
    factors: Sequence[float],
    rate: float = 0.0,
    log: Log = lambda text: None,
) -> LoadCurves:
    """Find the rate over all draws, and serve every draw by every arm around it.

    Args:
        serve: Serves draws.
        arms: Arms of the comparison.
        kv_tokens: Memory of the engine.
        draws: Number of draws.
        slowdown: Mean slowdown of the baseline at the rate.
        first_rate: Rate at which the search begins.
        factors: Rates of the curves, divided by that rate.
        rate: Programs a second if it is given; 0 searches.
        log: Called with each point.

    Raises:
        UsageError: There is no such rate, because there are too few programs.
    """
    (baseline,) = arms_named(BASELINE)
    known: dict[DrawPlay, StudyPoint] = {}
    tried: list[RateProbe] = []

    def points_of(plays: Sequence[DrawPlay]) -> list[StudyPoint]:
        fresh = [play for play in plays if play not in known]
        pace = WorkPace("plays", len(fresh), log)
        for play, coming in zip(fresh, serve(fresh), strict=True):
            point = known[play] = coming.result()
            pace.done(f"{play.rate:.4g}/s, draw {play.draw}, {play.arm.name}: {point.in_words()}")
        return [known[play] for play in plays]

    def probe(at: float) -> RateProbe:
        found = points_of([DrawPlay(baseline, at, draw) for draw in range(draws)])
        kept = fmean(one.working_set_tokens for one in found)
        tried.append(RateProbe(at, kv_tokens, fmean(one.mean_slowdown for one in found), kept))
        log(f"{at:.4g}/s: {BASELINE} has a mean slowdown of {tried[-1].slowdown:.2f}")
        return tried[-1]

    chosen = probe(rate) if rate else find_rate(probe, first_rate, slowdown, SEARCH)
    rates = [factor * chosen.rate for factor in sorted({1.0, *factors})]
    plays = [DrawPlay(arm, at, draw) for at in rates for draw in range(draws) for arm in arms]
    points_of(plays)
    points = {
        arm.name: {at: [known[DrawPlay(arm, at, draw)] for draw in range(draws)] for at in rates}
        for arm in arms
    }
    return LoadCurves(kv_tokens, chosen.rate, tuple(tried), points)

"""Policies compared on one mix, at the operating point of a plain engine and around it.

All arms serve the same programs at the same instants; differences are paired by seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from agentrt.analysis.statistics import Interval, mean_interval, percentiles, ratio_interval
from agentrt.analysis.target import Target
from agentrt.base.record import record
from agentrt.lab.operating_point import OperatingPoint
from agentrt.lab.progress import WorkPace
from agentrt.lab.result_file import header
from agentrt.lab.sim.arms import SimArm
from agentrt.lab.sim.study import Study, StudyPoint

SCHEMA = "agentrt.sim.sweep/1"
BASELINE, PLAIN, BEST = "rwa", "fcfs", "oracle"
AROUND = (0.5, 0.7, 0.85, 1.0, 1.15)
"""Rates of the curves, divided by the rate of the comparison."""

Log = Callable[[str], None]


@record
class Sweep:
    """The points of all arms.

    Attributes:
        operating: Operating point of the comparison.
        points: Points of each arm at that rate, one for each seed.
        curves: Points of each arm with the first seed, at rates around it.
    """

    operating: OperatingPoint
    points: Mapping[str, Sequence[StudyPoint]]
    curves: Mapping[str, Sequence[StudyPoint]]

    def ratio(self, one: str, other: str) -> Interval:
        """Mean latency of one arm divided by the other's, paired by seed."""
        return self._ratio(one, other, lambda point: point.mean_latency_s)

    def tail_ratio(self, one: str, other: str) -> Interval:
        """99th percentile of slowdowns of one arm divided by the other's, paired by seed."""
        return self._ratio(one, other, lambda point: point.p99_slowdown)

    def targets(self) -> list[Target]:
        """The targets between the arms of the sweep."""
        found = []
        if {BASELINE, PLAIN} <= self.points.keys():
            found += [
                Target("mean latency, rwa by fcfs", self.ratio(BASELINE, PLAIN), 0.5),
                Target("p99 slowdown, rwa by fcfs", self.tail_ratio(BASELINE, PLAIN), 1.0),
            ]
        if {BASELINE, BEST} <= self.points.keys():
            found.append(Target("mean latency, rwa by oracle", self.ratio(BASELINE, BEST), 1.2))
        return found

    def _ratio(self, one: str, other: str, figure: Callable[[StudyPoint], float]) -> Interval:
        pairs = zip(self.points[one], self.points[other], strict=True)
        return ratio_interval([figure(a) / figure(b) for a, b in pairs])


def sweep(
    study: Study,
    arms: Sequence[SimArm],
    operating: OperatingPoint,
    *,
    curves: bool = True,
    log: Log = lambda text: None,
) -> Sweep:
    """Run all arms at the operating point, and at rates around it with the first seed.

    Args:
        study: The mix.
        arms: Arms of the comparison.
        operating: Rates and memory.
        curves: True to run at rates around the point as well.
        log: Called with each point.
    """
    points: dict[str, list[StudyPoint]] = {arm.name: [] for arm in arms}
    around: dict[str, list[StudyPoint]] = {arm.name: [] for arm in arms}
    kv_tokens = operating.kv_tokens
    others = [factor for factor in AROUND if factor != 1.0] if curves else []
    pace = WorkPace("points", len(arms) * (len(operating.found) + len(others)), log)
    for seed, probe in enumerate(operating.found):
        for arm in arms:
            point = study.point(arm, probe.rate, seed, kv_tokens)
            points[arm.name].append(point)
            pace.done(f"seed {seed}, {arm.name}: {point.in_words()}")
    for factor in AROUND if curves else ():
        rate = factor * operating.found[0].rate
        for arm in arms:
            known = points[arm.name][0]
            if factor != 1.0:
                known = study.point(arm, rate, 0, kv_tokens)
                pace.done(f"rate {known.rate:.4g}/s, {arm.name}: {known.in_words()}")
            around[arm.name].append(known)
    return Sweep(operating, points, around)


def to_json(found: Sweep, about: Mapping[str, Any]) -> dict[str, Any]:
    """The content of the file of a sweep, with the latency and slowdown of every program."""
    return {
        **header(SCHEMA),
        "about": dict(about),
        "operating": {
            **asdict(found.operating),
            "slowdown": found.operating.slowdown,
            "working_set_tokens": found.operating.working_set_tokens,
        },
        "targets": [
            {"what": one.what, **asdict(one.found), "most": one.most, "met": one.is_met}
            for one in found.targets()
        ],
        "arms": {name: _arm_json(points) for name, points in found.points.items()},
        "curves": {
            name: [_point_json(point) for point in points] for name, points in found.curves.items()
        },
    }


def _arm_json(points: Sequence[StudyPoint]) -> dict[str, Any]:
    slowdown = np.concatenate([point.slowdown for point in points])
    return {
        "mean_latency_s": asdict(mean_interval([point.mean_latency_s for point in points])),
        "mean_slowdown": asdict(mean_interval([point.mean_slowdown for point in points])),
        "slowdown": {name: asdict(one) for name, one in percentiles(slowdown).items()},
        "fairness": asdict(mean_interval([point.fairness for point in points])),
        "seeds": [
            _point_json(point)
            | {
                "latency_s": point.latency_s.round(6).tolist(),
                "slowdown": point.slowdown.round(6).tolist(),
            }
            for point in points
        ],
    }


def _point_json(point: StudyPoint) -> dict[str, Any]:
    return {**point.figures(), "seed": point.seed, "mean_of_programs": point.sums}

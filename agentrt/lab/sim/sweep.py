"""Policies against each other on one mix: at the rate where a plain engine is slow, and around it.

All arms serve the same programs at the same instants; differences are paired by seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from agentrt.analysis.plot import Interval
from agentrt.analysis.statistics import percentiles
from agentrt.analysis.target import Target
from agentrt.lab.operating_point import OperatingPoint
from agentrt.lab.sim.arms import SimArm
from agentrt.lab.sim.statistics import over_seeds, ratio_over_seeds
from agentrt.lab.sim.study import Study, StudyPoint

SCHEMA = "agentrt.sim.sweep/1"
BASELINE, PLAIN, BEST = "rwa", "fcfs", "oracle"
AROUND = (0.5, 0.7, 0.85, 1.0, 1.15)
"""Rates of the curves, by the rate of the comparison."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sweep:
    """What was found.

    Attributes:
        operating: Where arms were compared.
        points: By arm, one a seed, at that rate.
        curves: By arm, with the first seed, at rates around it.
    """

    operating: OperatingPoint
    points: Mapping[str, Sequence[StudyPoint]]
    curves: Mapping[str, Sequence[StudyPoint]]

    def ratio(self, one: str, other: str) -> Interval:
        """Mean compound latency of one arm by that of the other, paired by seed."""
        pairs = zip(self.points[one], self.points[other], strict=True)
        return ratio_over_seeds([a.latency_s.mean() / b.latency_s.mean() for a, b in pairs])

    def tail_ratio(self, one: str, other: str) -> Interval:
        """The same of the 99th percentile of slowdowns."""
        pairs = zip(self.points[one], self.points[other], strict=True)
        return ratio_over_seeds([tail(a) / tail(b) for a, b in pairs])

    def targets(self) -> list[Target]:
        """What is to be reached, as far as its arms were run."""
        found = []
        if {BASELINE, PLAIN} <= self.points.keys():
            found += [
                Target("mean latency, rwa by fcfs", self.ratio(BASELINE, PLAIN), 0.5),
                Target("p99 slowdown, rwa by fcfs", self.tail_ratio(BASELINE, PLAIN), 1.0),
            ]
        if {BASELINE, BEST} <= self.points.keys():
            found.append(Target("mean latency, rwa by oracle", self.ratio(BASELINE, BEST), 1.2))
        return found


def sweep(
    study: Study,
    arms: Sequence[SimArm],
    operating: OperatingPoint,
    *,
    curves: bool = True,
    tell: Tell = lambda text: None,
) -> Sweep:
    """Run all arms at one point, each seed at its rate, and around it with the first seed.

    Args:
        study: Of the mix.
        arms: To be compared.
        operating: Rate and memory.
        curves: Whether to run at rates around it.
        tell: Called with what was run.
    """
    points: dict[str, list[StudyPoint]] = {arm.name: [] for arm in arms}
    around: dict[str, list[StudyPoint]] = {arm.name: [] for arm in arms}
    for seed in range(len(operating.found)):
        for arm in arms:
            point = study.point(arm, operating.found[seed].rate, seed, operating.kv_tokens)
            points[arm.name].append(point)
            tell(f"seed {seed}, {arm.name}: {line_of(point)}")
    for factor in AROUND if curves else ():
        for arm in arms:
            at = (
                points[arm.name][0]
                if factor == 1.0
                else study.point(arm, factor * operating.found[0].rate, 0, operating.kv_tokens)
            )
            around[arm.name].append(at)
            tell(f"rate {at.rate:.4g}/s, {arm.name}: {line_of(at)}")
    return Sweep(operating, points, around)


def tail(point: StudyPoint) -> float:
    """The 99th percentile of slowdowns."""
    return float(np.quantile(point.slowdown, 0.99))


def line_of(point: StudyPoint) -> str:
    """A point for people who wait."""
    host = f" ({point.host_hit:.2f} from the host)" if point.host_hit else ""
    return (
        f"mean {point.latency_s.mean():.2f} s, slowdown {point.slowdown.mean():.2f}, "
        f"p99 {tail(point):.1f}, cache {point.hit:.2f}{host}, busy {point.busy:.2f}"
    )


def to_json(found: Sweep, about: Mapping[str, Any], command: Sequence[str]) -> dict[str, Any]:
    """All of it, with a latency and a slowdown for every program."""
    return {
        "schema": SCHEMA,
        "command": list(command),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
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
        "mean_latency_s": asdict(over_seeds([float(p.latency_s.mean()) for p in points])),
        "mean_slowdown": asdict(over_seeds([float(p.slowdown.mean()) for p in points])),
        "slowdown": {name: asdict(one) for name, one in percentiles(slowdown).items()},
        "fairness": asdict(over_seeds([point.fairness for point in points])),
        "seeds": [_point_json(point, every=True) for point in points],
    }


def _point_json(point: StudyPoint, *, every: bool = False) -> dict[str, Any]:
    told: dict[str, Any] = {
        "rate": point.rate,
        "seed": point.seed,
        "mean_latency_s": float(point.latency_s.mean()),
        "mean_slowdown": float(point.slowdown.mean()),
        "p99_slowdown": tail(point),
        "busy": point.busy,
        "cache_hit": point.hit,
        "host_hit": point.host_hit,
        "copying": point.copying,
        "fairness": point.fairness,
        "steps": point.steps,
        "working_set_tokens": point.working_set_tokens,
        "mean_of_programs": point.sums,
    }
    if every:
        told["latency_s"] = [round(value, 6) for value in point.latency_s.tolist()]
        told["slowdown"] = [round(value, 6) for value in point.slowdown.tolist()]
    return told

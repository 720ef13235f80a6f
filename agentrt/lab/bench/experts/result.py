"""Samples of decode steps, and the ratios of arms that took turns."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from agentrt.analysis.model_shape import ModelShape
from agentrt.base.record import record
from agentrt.lab.bench.paired_steps import ratios_by_turn


@record
class Ratios:
    """How often one arm's step fits into another's, over the rounds.

    Attributes:
        middle: Median.
        least: Smallest.
        most: Largest.
    """

    middle: float
    least: float
    most: float


@record
class ExpertsPoint:
    """One batch size.

    Attributes:
        batch: Sequences at once.
        threads: Threads of every arm.
        peer: Arm that ours are compared with.
        samples: Seconds of a decode step by arm, one a round.
        load: Load average of a minute before and after.
        versions: Versions of torch and transformers.
    """

    batch: int
    threads: int
    peer: str
    samples: Mapping[str, tuple[float, ...]]
    load: tuple[float, float]
    versions: Mapping[str, str]

    def ratios(self, arm: str) -> Ratios:
        """The peer's step by an arm's, round by round."""
        found = ratios_by_turn(self.samples[self.peer], self.samples[arm])
        return Ratios(statistics.median(found), min(found), max(found))


def to_json(shape: ModelShape, results: Sequence[ExpertsPoint]) -> dict[str, Any]:
    """All samples, and the ratios of each arm."""
    points = [
        {**asdict(one), "ratios": {arm: asdict(one.ratios(arm)) for arm in one.samples}}
        for one in results
    ]
    return {"shape": asdict(shape), "points": points}

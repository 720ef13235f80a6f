"""Samples of decode steps by adapters, and what several cost by one."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from agentrt.analysis.model_shape import ModelShape
from agentrt.base.record import record
from agentrt.lab.bench.paired_steps import ratios_by_turn

NONE, ONE, SEVERAL = "no adapter", "one adapter", "several adapters"


@record
class AdaptersPoint:
    """One format of the weights.

    Attributes:
        weights: Format of the model's weights.
        batch: Sequences at once.
        threads: Threads of the engine.
        adapters: Adapters in the batch of several.
        rank: Rank of each.
        samples: Seconds of a decode step, by what its rows have; those of one index took turns.
        load: Load average of a minute before and after.
        torch: Version of torch.
    """

    weights: str
    batch: int
    threads: int
    adapters: int
    rank: int
    samples: Mapping[str, tuple[float, ...]]
    load: tuple[float, float]
    torch: str

    def costs(self, arm: str, by: str) -> tuple[float, float, float]:
        """Quartiles of an arm's step by that of another in its turn, the median in the middle."""
        found = ratios_by_turn(self.samples[arm], self.samples[by])
        lower, middle, upper = statistics.quantiles(found, n=4, method="inclusive")
        return lower, middle, upper


def to_json(shape: ModelShape, results: Sequence[AdaptersPoint]) -> dict[str, Any]:
    """All samples, and what several adapters cost by one."""
    points = [
        {
            **asdict(one),
            "several_by_one": one.costs(SEVERAL, ONE),
            "one_by_none": one.costs(ONE, NONE),
        }
        for one in results
    ]
    return {"shape": asdict(shape), "points": points}

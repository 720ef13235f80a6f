"""Which of several policies is better, as far as a measurement can tell, and who agrees with it.

Two policies served the same programs at the same instants, so their difference is taken program by
program. Where chance alone could have made it, of programs or of plays, the two are not ranked: a
simulator that orders them either way is as right as the engine is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from agentrt.analysis.plot import Interval
from agentrt.analysis.statistics import crossed_interval
from agentrt.lab.sim.fluid.library import Floats
from agentrt.lab.sim.statistics import kendall_tau


@dataclass(frozen=True, slots=True)
class Pair:
    """Two policies at one load.

    Attributes:
        one: A policy.
        other: Another.
        measured: Mean latency of the first by that of the second, less 1, with what chance leaves.
        simulated: The same of the simulator.
    """

    one: str
    other: str
    measured: Interval
    simulated: float

    @property
    def is_ranked(self) -> bool:
        """Whether the measurement tells which is better."""
        return self.measured.low > 0 or self.measured.high < 0

    @property
    def agrees(self) -> bool:
        """Whether both have the same one as the better."""
        return self.simulated * self.measured.value > 0


@dataclass(frozen=True, slots=True)
class Ranking:
    """All policies at one load.

    Attributes:
        pairs: Each with each.
        plain_tau: Kendall's, of mean latencies as they are, whatever chance has made of them.
    """

    pairs: Sequence[Pair]
    plain_tau: float

    @property
    def ranked(self) -> list[Pair]:
        """Those of which the measurement tells which is better."""
        return [pair for pair in self.pairs if pair.is_ranked]

    @property
    def tau(self) -> float | None:
        """Kendall's over the ranked pairs; None where none is."""
        ranked = self.ranked
        if not ranked:
            return None
        return sum(1 if pair.agrees else -1 for pair in ranked) / len(ranked)


def ranking_of(measured_s: Mapping[str, Floats], simulated_s: Mapping[str, Floats]) -> Ranking:
    """The ranking of policies at one load.

    Args:
        measured_s: `[repeats, programs]` latencies by policy, the same programs for each.
        simulated_s: The same in the simulator.
    """
    names = list(measured_s)
    pairs = [
        Pair(
            one,
            other,
            _difference(measured_s[one], measured_s[other]),
            float(simulated_s[one].mean() / simulated_s[other].mean() - 1),
        )
        for one, other in combinations(names, 2)
    ]
    means = ([float(of[name].mean()) for name in names] for of in (measured_s, simulated_s))
    return Ranking(pairs, kendall_tau(*means))


def _difference(one: Floats, other: Floats) -> Interval:
    """Of means, by the mean of the second, with what chance leaves among programs and repeats."""
    return crossed_interval((one - other) / other.mean())

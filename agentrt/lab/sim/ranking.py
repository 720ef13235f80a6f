"""The measured order of policies, and the simulator's agreement with it.

Two policies served the same programs at the same instants, so their difference is taken program by
program. If it is within chance, over programs or over repeats, the two are not ranked: either order
in the simulator is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from agentrt.analysis.statistics import Floats, Interval, crossed_interval, kendall_tau
from agentrt.base.record import record


@record
class Pair:
    """Two policies at one load.

    Attributes:
        one: A policy.
        other: Another policy.
        measured: Mean latency of the first divided by that of the second, less 1.
        simulated: The same ratio in the simulator.
    """

    one: str
    other: str
    measured: Interval
    simulated: float

    @property
    def is_ranked(self) -> bool:
        """True if the measured difference is beyond chance."""
        return self.measured.low > 0 or self.measured.high < 0

    @property
    def agrees(self) -> bool:
        """True if the same policy is better in the simulator."""
        return self.simulated * self.measured.value > 0


@record
class Ranking:
    """All policies at one load.

    Attributes:
        pairs: All pairs of policies.
        plain_tau: Kendall's tau of all mean latencies, differences within chance included.
    """

    pairs: Sequence[Pair]
    plain_tau: float

    @property
    def ranked(self) -> list[Pair]:
        """The pairs with a measured difference beyond chance."""
        return [pair for pair in self.pairs if pair.is_ranked]

    @property
    def tau(self) -> float | None:
        """Kendall's tau over the ranked pairs; None if there is none."""
        ranked = self.ranked
        if not ranked:
            return None
        return sum(1 if pair.agrees else -1 for pair in ranked) / len(ranked)


def ranking_of(measured_s: Mapping[str, Floats], simulated_s: Mapping[str, Floats]) -> Ranking:
    """The ranking of policies at one load.

    Args:
        measured_s: `[repeats, programs]` latencies by policy, with the same programs for all.
        simulated_s: `[repeats, programs]` latencies in the simulator.
    """
    names = list(measured_s)
    pairs = [
        Pair(
            one,
            other,
            crossed_interval((measured_s[one] - measured_s[other]) / measured_s[other].mean()),
            float(simulated_s[one].mean() / simulated_s[other].mean() - 1),
        )
        for one, other in combinations(names, 2)
    ]
    means = ([float(of[name].mean()) for name in names] for of in (measured_s, simulated_s))
    return Ranking(pairs, kendall_tau(*means))

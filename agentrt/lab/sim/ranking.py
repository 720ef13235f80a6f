"""The order of policies as far as a measurement shows it, and the simulator's agreement with it.

Two policies served the same programs at the same instants, so their difference is taken program by
program. If chance alone could have made it, by programs or by plays, the two are not ranked: a
simulator that orders them either way is as right as the engine is.
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
        measured: Mean latency of the first divided by the second's, less 1.
        simulated: The same of the simulator.
    """

    one: str
    other: str
    measured: Interval
    simulated: float

    @property
    def is_ranked(self) -> bool:
        """True if the measurement shows which is better."""
        return self.measured.low > 0 or self.measured.high < 0

    @property
    def agrees(self) -> bool:
        """True if the simulator has the same one as the better."""
        return self.simulated * self.measured.value > 0


@record
class Ranking:
    """All policies at one load.

    Attributes:
        pairs: Each policy with each other.
        plain_tau: Kendall's tau of mean latencies, whatever chance has made of them.
    """

    pairs: Sequence[Pair]
    plain_tau: float

    @property
    def ranked(self) -> list[Pair]:
        """The pairs of which the measurement shows which is better."""
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
        measured_s: `[repeats, programs]` latencies by policy, the same programs for each.
        simulated_s: The same in the simulator.
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

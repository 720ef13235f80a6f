"""The final of a tuning: what keeps the rules is measured in turns, and intervals decide.

A round is one turn of each finalist over the same few cases. Rounds come in pairs, the second one
in the order back: the geometric mean of both latencies of a case is free of what drifts evenly.
Divided by the level that all finalists had in that pair of rounds, they are comparable over the
whole final. What is clearly slower than the fastest one leaves; the final ends once nothing that
is left is worth more than chance over the simplest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from agentrt.analysis.statistics import Interval, geometric_mean, percentile
from agentrt.base.record import record
from agentrt.lab.evaluation.case_result import CaseResult
from agentrt.lab.evaluation.paired import paired_change
from agentrt.lab.tuning.tuning_rules import LATENCY_SHARES, TuningRules
from agentrt.lab.tuning.turns import FINAL, RaceTurn, Timings

_FEWEST_PAIRS = 6
"""Pairs from which on intervals decide: of fewer, all point one way by chance too often."""
_WORTH = 0.02
"""Gain for which measuring goes on: a simpler configuration that may be this much slower stays."""
_LEAST_S = 1e-9


@record
class FinalStanding:
    """How a final stands.

    Attributes:
        due: Turns that come next; () at the end.
        chosen: The first finalist, by index, that is not clearly slower than the fastest one; None
            before there are enough pairs.
        fastest: The finalist with the lowest estimate; None likewise.
        pairs: Pairs of cases behind the choice.
        changes: At the end, the change of the objective from the chosen one to each other finalist,
            over the pairs that both have.
    """

    due: tuple[RaceTurn, ...] = ()
    chosen: int | None = None
    fastest: int | None = None
    pairs: int = 0
    changes: Mapping[int, Interval] | None = None


def final_standing(
    finalists: Sequence[int], timings: Timings, count: int, rules: TuningRules
) -> FinalStanding:
    """How a final stands after some turns; it follows from their results alone.

    Args:
        finalists: Indices of the finalists, simpler ones first; at least two.
        timings: Results of the turns so far.
        count: Cases of the suite.
        rules: The rules; the objective is a latency.

    Example:
        >>> [(one.at, one.number) for one in final_standing([0, 3], {}, 8, TuningRules()).due]
        [(0, 2), (3, 2), (3, 3), (0, 3)]
    """
    share = min(count, rules.first_cases)
    pairs_of_rounds = max(rules.most_turns // 2, -(-_FEWEST_PAIRS // share))
    left, values = list(finalists), _SteadyTimes(rules)
    found = FinalStanding()
    for pair in range(pairs_of_rounds):
        cases = tuple((pair * share + at) % count for at in range(share))
        there, back = FINAL + 2 * pair, FINAL + 2 * pair + 1
        order = [*((at, there) for at in left), *((at, back) for at in reversed(left))]
        rests = [(turn, _rest(cases, timings.get(turn, {}))) for turn in order]
        due = tuple(RaceTurn(at, rest, number) for (at, number), rest in rests if rest)
        if due:
            return replace(found, due=due)
        rounds = {at: (timings[at, there], timings[at, back]) for at in left}
        values.add(
            {at: [(one[case], two[case]) for case in cases] for at, (one, two) in rounds.items()}
        )
        if values.pairs < _FEWEST_PAIRS:
            continue
        fastest = min(left, key=values.estimate)
        left = [at for at in left if at == fastest or values.change(fastest, at).low <= 0]
        found = FinalStanding((), left[0], fastest, values.pairs)
        if all(values.change(left[0], at).low > -_WORTH for at in left[1:]):
            break
    if found.chosen is None:
        return found
    changes = {at: values.change(found.chosen, at) for at in finalists if at != found.chosen}
    return replace(found, changes=changes)


def _rest(cases: tuple[int, ...], ran: Collection[int]) -> tuple[int, ...]:
    """The cases of a turn that have not run."""
    return tuple(case for case in cases if case not in ran)


class _SteadyTimes:
    """Latencies of finalists, free of the drift of the load.

    Attributes:
        pairs: Cases so far that ended in both rounds for all finalists.
    """

    def __init__(self, rules: TuningRules) -> None:
        self._share, self._seed = LATENCY_SHARES[rules.objective], rules.seed
        self._of: dict[int, list[float]] = {}
        self._changes: dict[tuple[int, int], Interval] = {}
        self.pairs = 0

    def add(self, both: Mapping[int, Sequence[tuple[CaseResult, CaseResult]]]) -> None:
        """Add a pair of rounds; a case that failed anywhere says nothing about speed."""
        self._changes = {}
        found: dict[int, list[float]] = {at: [] for at in both}
        for each in zip(*both.values(), strict=True):
            if not any(row.error for pair in each for row in pair):
                for at, pair in zip(both, each, strict=True):
                    found[at].append(geometric_mean([max(row.latency_s, _LEAST_S) for row in pair]))
        every = [value for values in found.values() for value in values]
        if every:
            level = geometric_mean(every)
            for at, values in found.items():
                self._of.setdefault(at, []).extend(value / level for value in values)
            self.pairs += len(every) // len(found)

    def estimate(self, at: int) -> float:
        """The objective of a finalist, as a multiple of the level of all."""
        return percentile(self._of[at], self._share)

    def change(self, one: int, other: int) -> Interval:
        """The change from one finalist to another."""
        if (one, other) not in self._changes:
            both = min(len(self._of[one]), len(self._of[other]))
            first, second = self._of[one][:both], self._of[other][:both]
            found = paired_change(first, second, self._share, self._seed)
            self._changes[one, other] = found
        return self._changes[one, other]

"""Races over tables: the results of every configuration for every case are known beforehand."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from agentrt.lab.evaluation.case_result import CaseResult
from agentrt.lab.tuning.race import Standing, standing
from agentrt.lab.tuning.tuning_rules import TuningRules
from agentrt.lab.tuning.turns import FIRST, RaceTurn

Table = Sequence[Sequence[CaseResult]]


def result(at: int, case: int, latency_s: float, score: float) -> CaseResult:
    return CaseResult(str(at), str(case), score == 1, score, [at, case], "", latency_s)


def table(rows: Sequence[Sequence[tuple[float, float]]]) -> list[list[CaseResult]]:
    """A table of latencies and scores: a row each configuration, a column each case."""
    return [
        [result(at, case, *cell) for case, cell in enumerate(row)] for at, row in enumerate(rows)
    ]


def steady(rows: Sequence[tuple[float, float]], cases: int) -> list[list[CaseResult]]:
    """A table without noise: a configuration has one latency and one score."""
    return table([[row] * cases for row in rows])


def played(
    full: Table,
    rules: TuningRules,
    ran_before: Sequence[int] = (),
    load: Callable[[float], float] = lambda now_s: 1.0,
) -> tuple[Standing, list[int]]:
    """The end of a race, and the number of cases that each configuration ran for the first time.

    Args:
        full: What each configuration takes for each case on an idle machine.
        rules: The rules.
        ran_before: Cases that each configuration has run already, while the machine was idle.
        load: Factor of all latencies at a time in seconds, on a clock that runs move on.
    """
    race = Race(full, rules, ran_before, load)
    return race.end(), [len(row) for row in race.results]


class Race:
    """A race on a virtual clock.

    Attributes:
        results: Results of each configuration.
        timings: Results of later turns.
        now_s: The clock.
    """

    def __init__(
        self,
        full: Table,
        rules: TuningRules,
        ran_before: Sequence[int] = (),
        load: Callable[[float], float] = lambda now_s: 1.0,
    ) -> None:
        self._full, self._rules, self._load = full, rules, load
        ran = list(ran_before) or [0] * len(full)
        self.results = [list(row[:n]) for row, n in zip(full, ran, strict=True)]
        self.timings: dict[tuple[int, int], dict[int, CaseResult]] = {}
        self.now_s = 0.0

    @property
    def plays(self) -> int:
        """Runs of a case in all."""
        return sum(map(len, (*self.results, *self.timings.values())))

    def standing(self) -> Standing:
        """How it stands."""
        return standing(self.results, len(self._full[0]), self._rules, timings=self.timings)

    def end(self) -> Standing:
        """Run all that is due."""
        while (found := self.standing()).due:
            for turn in found.due:
                self.run(turn)
        return found

    def run(self, turn: RaceTurn) -> None:
        """Run a turn."""
        own, later = self.results[turn.at], self.timings.setdefault((turn.at, turn.number), {})
        for case in turn.cases:
            row = self._full[turn.at][case]
            latency_s = row.latency_s * self._load(self.now_s)
            self.now_s += latency_s
            found = replace(row, latency_s=latency_s)
            if turn.number == FIRST:
                assert case == len(own)
                own.append(found)
            else:
                assert case not in later
                later[case] = found

"""Races over tables: the results of every configuration for every case are known beforehand."""

from collections.abc import Sequence

from agentrt.lab.evaluation.case_result import CaseResult
from agentrt.lab.tuning.race import Standing, standing
from agentrt.lab.tuning.tuning_rules import TuningRules

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
    full: Table, rules: TuningRules, ran_before: Sequence[int] = ()
) -> tuple[Standing, list[int]]:
    """The end of a race, and the number of cases that each configuration ran."""
    count, ran = len(full[0]), list(ran_before) or [0] * len(full)
    while True:
        found = standing([row[:n] for row, n in zip(full, ran, strict=True)], count, rules)
        if not found.due:
            return found, ran
        for at in found.due:
            assert ran[at] < found.cases <= count
            ran[at] = found.cases

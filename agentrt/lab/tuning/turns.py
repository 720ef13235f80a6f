"""Turns of configurations: what is compared is measured close in time, and in both orders.

The load of a machine drifts. Turns in the order A B C and then C B A lie, on average, at the same
time for all of them, so that what drifts evenly is in no difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentrt.base.record import record
from agentrt.lab.evaluation.case_result import CaseResult

FIRST = 0
"""Number of the turns in which cases run for the first time; their answers are scored."""
BESIDE = 1
"""Number of the turns of the baseline beside others of the race."""
FINAL = 2
"""Number of the first round of a final; later rounds count on."""

Timings = Mapping[tuple[int, int], Mapping[int, CaseResult]]
"""Results of later turns, by configuration and number, and by the index of the case."""


@record
class RaceTurn:
    """Runs of one configuration, one after the other.

    Attributes:
        at: Index of the configuration.
        cases: Indices of the cases.
        number: `FIRST`, or a later turn, in which latencies alone count.
    """

    at: int
    cases: tuple[int, ...]
    number: int = FIRST


def mirrored(reached: Mapping[int, int], numbers: Mapping[int, int], to: int) -> list[RaceTurn]:
    """Turns in which all configurations reach `to` cases: one half in their order, then back.

    Args:
        reached: Number of cases that each configuration has run, by its index.
        numbers: Number of its turns, likewise.
        to: Number of cases to reach.

    Example:
        >>> [(one.at, one.cases) for one in mirrored({1: 0, 2: 0}, {1: 0, 2: 0}, 4)]
        [(1, (0, 1)), (2, (0, 1, 2, 3)), (1, (2, 3))]
    """
    half = (min(reached.values(), default=0) + to + 1) // 2
    there = [(at, range(done, half)) for at, done in reached.items()]
    back = [(at, range(max(done, half), to)) for at, done in reached.items()]
    turns = [RaceTurn(at, tuple(cases), numbers[at]) for at, cases in (*there, *reversed(back))]
    return joined([one for one in turns if one.cases])


def joined(turns: Sequence[RaceTurn]) -> list[RaceTurn]:
    """Turns of which neighbours of one configuration are one: its engine starts once for them."""
    found: list[RaceTurn] = []
    for turn in turns:
        last = found[-1] if found else None
        if last is not None and (last.at, last.number) == (turn.at, turn.number):
            found[-1] = replace(last, cases=last.cases + turn.cases)
        else:
            found.append(turn)
    return found

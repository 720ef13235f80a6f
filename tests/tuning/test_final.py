"""The final of a tuning: turns in both orders, and a load that drifts decides nothing."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.lab.tuning.final import FinalStanding, final_standing
from agentrt.lab.tuning.tuning_rules import TuningRules
from agentrt.lab.tuning.turns import BESIDE, FINAL, FIRST, RaceTurn, joined, mirrored
from tests.tuning.tables import Race, played, result, steady, table

Load = Callable[[float], float]
RULES = TuningRules()
HARD = 40.0
"""Time in seconds in which a load changes; a race of the tables here takes one to a few of them."""


@st.composite
def loads(draw: st.DrawFn) -> Load:
    """A factor of all latencies that changes over time, up or down, once or again and again."""
    most = draw(st.floats(1.0, 6.0))
    pace = draw(st.floats(0.3, 3.0)) / HARD
    phase = draw(st.floats(0.0, 2 * math.pi))
    kind = draw(st.sampled_from(["up", "down", "waves"]))

    def load(now_s: float) -> float:
        if kind == "waves":
            return 1 + (most - 1) * (1 + math.sin(phase + now_s * pace)) / 2
        done = min(1.0, now_s * pace)
        return 1 + (most - 1) * (done if kind == "up" else 1 - done)

    return load


@settings(max_examples=25, deadline=None, derandomize=True)
@given(loads(), st.integers(0, 2), st.integers(6, 16), st.floats(0.4, 0.8))
def test_the_better_one_is_chosen_whatever_the_load_does(
    load: Load, best: int, cases: int, part: float
) -> None:
    rows = [
        [((0.5 + case % 3) * (part if at == best else 1.0), 1.0) for case in range(cases)]
        for at in range(3)
    ]
    found, _ = played(table(rows), RULES, load=load)
    assert found.chosen == best


def test_one_after_the_other_a_load_would_decide() -> None:
    """The load grows, so that the second one, which is faster, takes longer at its first runs."""
    race = Race(steady([(1.0, 1.0), (0.7, 1.0)], 12), RULES, load=lambda now_s: 1 + now_s / 12)
    assert race.end().chosen == 1
    first, second = (sorted(row.latency_s for row in rows)[6] for rows in race.results)
    assert second > first


def order(race: Race) -> list[tuple[int, int]]:
    return [key for key in race.timings if key[1] >= FINAL]


def test_finalists_take_turns_there_and_back() -> None:
    race = Race(steady([(1.0, 1.0), (1.0, 1.0)], 8), RULES)
    found = race.end()
    assert order(race) == [
        *((0, FINAL), (1, FINAL), (1, FINAL + 1), (0, FINAL + 1)),
        *((0, FINAL + 2), (1, FINAL + 2), (1, FINAL + 3), (0, FINAL + 3)),
    ]
    cases = [tuple(race.timings[0, FINAL + number]) for number in range(4)]
    assert cases == [(0, 1, 2, 3), (0, 1, 2, 3), (4, 5, 6, 7), (4, 5, 6, 7)]
    assert found.final is not None
    assert (found.chosen, found.final.pairs) == (0, 8)  # nothing is worth more turns


def test_what_is_clearly_slower_leaves_the_final() -> None:
    rows = [[(seconds * (1 + case % 3), 1.0) for case in range(8)] for seconds in (1.0, 0.5, 0.505)]
    race = Race(table(rows), RULES)
    found = finish(race, [0, 1, 2])
    assert (found.chosen, found.fastest) == (1, 1)
    assert max(number for at, number in race.timings if at == 0) == FINAL + 3
    assert found.changes is not None
    assert (found.changes[0].low, found.changes[0].high) == pytest.approx((1.0, 1.0))
    assert sorted(found.changes) == [0, 2]


def finish(race: Race, finalists: list[int]) -> FinalStanding:
    while (found := final_standing(finalists, race.timings, 8, RULES)).due:
        for turn in found.due:
            race.run(turn)
    return found


@settings(max_examples=8, deadline=None, derandomize=True)
@given(loads(), st.integers(1, 40))
def test_a_final_goes_on_from_any_run(load: Load, cut: int) -> None:
    rows = [[(seconds * (1 + case % 3), 1.0) for case in range(6)] for seconds in (1.0, 0.9)]
    whole, other = Race(table(rows), RULES, load=load), Race(table(rows), RULES, load=load)
    end, left = whole.end(), cut
    while left and (due := other.standing().due):  # run by run, as if cut off after each
        other.run(replace(due[0], cases=due[0].cases[:1]))
        left -= 1
    found = other.end()
    assert (found.chosen, found.places) == (end.chosen, end.places)
    assert other.plays == whole.plays


def test_a_case_that_fails_in_the_final_is_no_pair() -> None:
    race = Race(steady([(1.0, 1.0), (0.5, 1.0)], 8), RULES)
    while (due := final_standing([0, 1], race.timings, 8, RULES).due) and due[0].number < FINAL + 2:
        for turn in due:
            race.run(turn)
    failed = replace(result(1, 2, 0.0, 1.0), error="ValueError: no")
    race.timings[1, FINAL][2] = failed
    assert finish(race, [0, 1]).pairs == 7


def test_a_suite_of_one_case_has_turns_enough() -> None:
    race = Race(steady([(1.0, 1.0), (0.5, 1.0)], 1), RULES)
    found = race.end()
    assert found.final is not None
    assert (found.chosen, found.final.pairs) == (1, 6)


def test_without_turns_or_for_the_cost_there_is_no_final() -> None:
    for rules in (replace(RULES, most_turns=0), replace(RULES, objective="cost")):
        race = Race(steady([(1.0, 1.0), (0.5, 1.0)], 8), rules)
        assert race.end().final is None
        assert order(race) == []
        assert ((0, BESIDE) in race.timings) == (rules.objective != "cost")


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.dictionaries(st.integers(0, 5), st.integers(0, 9), min_size=1), st.integers(1, 20))
def test_turns_there_and_back_reach_all_cases_once(reached: dict[int, int], more: int) -> None:
    to = max(reached.values()) + more
    turns = mirrored(reached, dict.fromkeys(reached, FIRST), to)
    for at, done in reached.items():
        ran = [case for turn in turns if turn.at == at for case in turn.cases]
        assert ran == list(range(done, to))
    assert joined(turns) == turns


def test_neighbours_of_another_turn_stay_apart() -> None:
    turns = [RaceTurn(0, (1,)), RaceTurn(0, (2,)), RaceTurn(0, (3,), BESIDE), RaceTurn(1, (1,))]
    assert joined(turns) == [RaceTurn(0, (1, 2)), RaceTurn(0, (3,), BESIDE), RaceTurn(1, (1,))]

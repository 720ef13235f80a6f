"""The race of a tuning: the best wins, what is proven wrong is out, and runs are few."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.analysis.statistics import percentile
from agentrt.lab.evaluation.limit import parse_limit
from agentrt.lab.tuning.race import heats, nearest, standing
from agentrt.lab.tuning.tuning_rules import TuningRules, objective_of
from tests.tuning.tables import Race, Table, played, steady, table

RULES = TuningRules((parse_limit("score<-1%"),))
LATENCIES = st.sampled_from([0.1, 0.2, 0.5, 1.0, 2.0, 3.0])
SCORES = st.sampled_from([0.0, 0.5, 0.995, 1.0])
STEADY = st.lists(st.tuples(LATENCIES, SCORES), min_size=1, max_size=6)
SLOS = st.sampled_from([None, 0.15, 1.5, 9.0])
few = settings(max_examples=20, deadline=None, derandomize=True)


@st.composite
def noisy(draw: st.DrawFn) -> Table:
    cases = draw(st.integers(1, 9))
    cell = st.tuples(LATENCIES, SCORES)
    row = st.lists(cell, min_size=cases, max_size=cases)
    return table(draw(st.lists(row, min_size=1, max_size=5)))


def keeps(full: Table, at: int, rules: TuningRules) -> bool:
    """Whether a configuration keeps the rules over all cases, computed plainly."""
    scores = [sum(row.score for row in full[one]) / len(full[one]) for one in (0, at)]
    p95 = percentile([row.latency_s for row in full[at]], 0.95)
    return scores[1] - scores[0] >= -0.01 - 1e-9 and (rules.slo_s is None or p95 <= rules.slo_s)


@few
@given(STEADY, st.integers(1, 20), SLOS)
def test_without_noise_the_best_is_found(
    rows: list[tuple[float, float]], cases: int, slo_s: float | None
) -> None:
    full, rules = steady(rows, cases), replace(RULES, slo_s=slo_s)
    keeping = [at for at in range(len(rows)) if keeps(full, at, rules)]
    best = min(keeping, key=lambda at: (rows[at][0], at), default=None)
    found, _ = played(full, rules)
    assert found.chosen == best


@few
@given(noisy(), SLOS)
def test_what_is_chosen_keeps_the_rules_and_nothing_aside_looks_better(
    full: Table, slo_s: float | None
) -> None:
    rules = replace(RULES, slo_s=slo_s)
    found, ran = played(full, rules)
    for at, place in enumerate(found.places):
        assert place.state in ("kept", "aside", "out")
        assert (place.state == "kept") == (ran[at] == len(full[0]) and keeps(full, at, rules))
        if place.state == "aside":
            assert found.fastest is not None
            own, best = (
                objective_of(full[one][: ran[at]], "latency_p50") for one in (at, found.fastest)
            )
            assert own >= best
    if found.chosen is None:
        assert not any(one.state in ("kept", "aside") for one in found.places)
    else:
        assert found.places[found.chosen].state == "kept"


@few
@given(noisy(), st.integers(1, 30))
def test_runs_are_bounded(full: Table, most: int) -> None:
    free, race = Race(full, RULES), Race(full, replace(RULES, most_plays=most))
    end, found = free.end(), race.end()
    assert race.plays <= most
    assert found.spent == (free.plays > most)
    if not found.spent:
        assert found == end
    if most < len(full[0]):
        assert found.chosen is None


@settings(few, max_examples=8)
@given(noisy())
def test_a_race_goes_on_from_any_point(full: Table) -> None:
    """What the race asks for next depends on results alone, also on those of a part of a share."""
    end, ran = played(full, RULES)
    for cut in (1, 5):
        now = [ran[0], *(min(cut, one) for one in ran[1:])]
        found, _ = played(full, RULES, now)
        assert (found.chosen, found.places) == (end.chosen, end.places)


def test_a_dominated_configuration_runs_the_first_cases_alone() -> None:
    slow = [(2.0 + case, 1.0) for case in range(40)]
    fast = [(1.0 + case / 2, 1.0) for case in range(40)]
    found, ran = played(table([fast, slow]), RULES)
    assert ran == [40, 4]
    assert found.places[1].state == "aside"
    assert found.places[1].why == "latency_p50 +100% after 4 of 40 cases, clearly"
    assert (found.places[1].behind, found.chosen) == (0, 0)


def test_a_configuration_that_answers_worse_is_out_at_the_first_proof() -> None:
    worse = [(0.1, float(case != 2)) for case in range(40)]
    found, ran = played(table([[(1.0, 1.0)] * 40, worse]), RULES)
    assert ran == [40, 4]
    assert found.places[1].state == "out"
    assert found.places[1].why == "score<-1%: -25.0% after 4 of 40 cases"


def test_an_interval_proves_what_arithmetic_leaves_open() -> None:
    """The baseline fails half of 400 cases, so that a loss could be won back for long."""
    base = [(1.0, float(case % 2)) for case in range(400)]
    found, ran = played(table([base, [(0.1, 0.0)] * 400]), RULES)
    assert found.places[1].state == "out"
    assert ran[1] <= 16


def test_what_was_set_aside_goes_on_once_the_faster_one_falls() -> None:
    fails_late = [(0.1, float(case < 39)) for case in range(40)]
    full = table([[(1.0, 1.0)] * 40, fails_late, [(0.5, 1.0)] * 40])
    found, ran = played(full, RULES)
    assert [one.state for one in found.places] == ["kept", "out", "kept"]
    assert (found.chosen, ran) == (2, [40, 40, 40])


def test_many_equal_ones_are_halved() -> None:
    found, ran = played(steady([(1.0, 1.0)] * 17, 100), RULES)
    assert sorted(ran) == [4] * 8 + [8] * 4 + [16] * 2 + [32] + [100, 100]
    assert found.chosen == 0  # nothing is clearly better than what holds now


def test_a_refused_configuration_never_runs() -> None:
    full = steady([(1.0, 1.0), (0.1, 1.0)], 4)
    found = standing([full[0], []], 4, RULES, {1: "does not start: no model"})
    assert (found.due, found.chosen) == ((), 0)
    assert found.places[1].why == "does not start: no model"


def test_the_nearest_keeps_the_limits_if_any_does() -> None:
    full = steady([(3.0, 1.0), (2.0, 1.0), (0.5, 0.0)], 8)
    rules = replace(RULES, slo_s=1.0)
    found, ran = played(full, rules)
    assert found.chosen is None
    rows = [row[:n] for row, n in zip(full, ran, strict=True)]
    assert nearest(rows, rules) == 1
    assert nearest([[], []], rules) is None


@few
@given(st.integers(1, 500), st.integers(1, 20))
def test_heats_grow_up_to_all_cases(count: int, first: int) -> None:
    found = heats(count, first)
    assert found[-1] == count
    assert all(b >= 2 * a or b == count for a, b in pairwise(found))
    assert found == sorted(set(found))


def test_an_interval_proves_a_missed_slo_before_arithmetic_does() -> None:
    rules = replace(RULES, slo_s=1.5)
    found, ran = played(steady([(3.0, 1.0), (2.0, 1.0)], 400), rules)
    assert found.places[1].why == "p95 of 2 s after 4 of 400 cases, above the SLO of 1.5 s"
    assert ran[1] == 4


def test_what_chance_explains_moves_no_lever() -> None:
    """The second configuration has the lower median, but the order of the two is left to chance."""
    base = [(1.0 if case < 6 else 0.8, 1.0) for case in range(10)]
    noise = [(0.95 if case % 5 else 1.05, 1.0) for case in range(10)]
    found, _ = played(table([base, noise]), RULES)
    assert found.chosen == 0

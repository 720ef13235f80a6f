"""Statistics of shares and pairs, against values computed by hand and against their own laws."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.lab.evaluation.paired import (
    mcnemar,
    paired_change,
    paired_difference,
    pareto_front,
    wilson,
)

OUTCOMES = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=30)


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"),
    # Half of 4: (1/2 + z²/8 ± z·sqrt(1/16 + z²/64)) / (1 + z²/4) with z² = 3.8415.
    [
        (2, 4, 0.1500, 0.8500),
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (81, 263, 0.2553, 0.3662),
    ],
)
def test_wilson_by_hand(hits: int, count: int, low: float, high: float) -> None:
    found = wilson(hits, count)
    assert found.value == hits / count
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)


@given(st.integers(1, 500), st.data())
def test_wilson_holds_its_share_and_mirrors(count: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, count))
    found, other = wilson(hits, count), wilson(count - hits, count)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert (found.low, found.high) == pytest.approx((1 - other.high, 1 - other.low))


@pytest.mark.parametrize(("hits", "count"), [(1, 0), (3, 2), (-1, 2)])
def test_what_is_no_share_is_refused(hits: int, count: int) -> None:
    with pytest.raises(ValueError, match="is no share"):
        wilson(hits, count)


@pytest.mark.parametrize(
    ("lost", "won", "p"),
    # 2 · (1 + 10) / 2^10, and 2 · (1 + 8 + 28) / 2^8.
    [(0, 0, 1.0), (1, 0, 1.0), (9, 1, 22 / 1024), (2, 6, 74 / 256), (10, 0, 2 / 1024)],
)
def test_mcnemar_by_hand(lost: int, won: int, p: float) -> None:
    assert mcnemar(lost, won) == pytest.approx(p)


@given(st.integers(0, 80), st.integers(0, 80))
def test_mcnemar_is_a_chance_and_knows_no_side(lost: int, won: int) -> None:
    assert 0 < mcnemar(lost, won) == mcnemar(won, lost) <= 1


@given(OUTCOMES, st.integers(0, 9))
def test_a_difference_has_a_sign_and_one_value_a_seed(
    pairs: list[tuple[bool, bool]], seed: int
) -> None:
    first, second = ([float(one[at]) for one in pairs] for at in (0, 1))
    found, back = paired_difference(first, second, seed), paired_difference(second, first, seed)
    assert found == paired_difference(first, second, seed)
    assert found.low <= found.value <= found.high
    assert (back.value, back.low, back.high) == pytest.approx(
        (-found.value, -found.high, -found.low), abs=1e-12
    )


def test_a_pair_that_is_equal_has_no_interval() -> None:
    found = paired_difference([1.0, 0.0, 1.0], [1.0, 0.0, 1.0], seed=1)
    assert (found.value, found.low, found.high) == (0, 0, 0)


def test_changes_are_relative() -> None:
    slow = paired_change([1.0, 2.0, 3.0], [1.1, 2.2, 3.3], 0.5, seed=0)
    assert (slow.value, slow.low, slow.high) == pytest.approx((0.1, 0.1, 0.1))
    assert paired_change([1.0, 3.0], [2.0, 4.0], None, seed=0).value == pytest.approx(0.5)
    assert math.isnan(paired_change([0.0, 0.0], [1.0, 1.0], None, seed=0).value)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12))
def test_each_point_is_on_the_front_or_beaten_by_one_on_it(points: list[tuple[int, int]]) -> None:
    front = pareto_front(points)
    for index, (x, y) in enumerate(points):
        better = [(a, b) for a, b in points if a <= x and b <= y and (a, b) != (x, y)]
        assert (index in front) == (not better)
        assert index in front or any(points[at] in better for at in front)

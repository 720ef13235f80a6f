"""Ratios between arms: their intervals hold the chance of draws and of plays, each by itself."""

import pytest

from agentrt.lab.bench.compound.ratios import PairedProgram, geometric_ratio, ratio

STEADY = PairedProgram((1.0, 1.0, 1.0), (2.0, 2.0, 2.0))
NOISY = PairedProgram((0.5, 1.0, 2.0), (1.0, 2.0, 4.0))


def test_a_ratio_is_that_of_geometric_means() -> None:
    found = ratio([STEADY])
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))
    assert ratio([PairedProgram((1.0,), (2.0,)), PairedProgram((4.0,), (2.0,))]).value == (
        pytest.approx(1.0)
    )


def test_plays_of_one_program_leave_doubt() -> None:
    """Plays of two arms are no pairs: that the third of each was slow is chance."""
    found = ratio([NOISY])
    assert found.value == pytest.approx(0.5)
    assert found.low < 0.4 < 0.6 < found.high


def test_draws_leave_doubt_also_where_plays_agree() -> None:
    found = ratio([STEADY, PairedProgram((4.0,), (2.0,))])
    assert found.value == pytest.approx(1.0)
    assert (found.low, found.high) == pytest.approx((0.5, 2.0))


def test_more_draws_and_plays_narrow_the_interval() -> None:
    few = ratio([NOISY] * 2)
    many = ratio([PairedProgram(NOISY.ours * 4, NOISY.theirs * 4)] * 8)
    assert many.high / many.low < few.high / few.low


def test_shapes_weigh_the_same_and_are_not_drawn() -> None:
    found = geometric_ratio({"a": [STEADY] * 5, "b": [PairedProgram((2.0,), (1.0,))]})
    assert (found.value, found.low, found.high) == pytest.approx((1.0, 1.0, 1.0))
    assert geometric_ratio({"a": [NOISY]}) == geometric_ratio({"a": [NOISY]})

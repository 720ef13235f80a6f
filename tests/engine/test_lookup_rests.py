"""Rests of look-ups: as long as look-ups cost, and none where they cost nothing."""

from typing import Any

import pytest

from agentrt.engine.drafts.lookup_rests import LookupRests


def looked_up(cost: float, steps: int) -> list[int]:
    """Steps in which a sequence is looked up, always in vain."""
    rests: Any = LookupRests()
    rests.note_cost(cost)
    found = []
    for step in range(steps):
        if not rests.is_resting("sequence"):
            found.append(step)
            rests.note("sequence", found=False)
    return found


@pytest.mark.parametrize("cost", [0.0, 0.01, 0.05, 0.2, 0.3])
def test_lookups_in_vain_take_a_small_share(cost: float) -> None:
    """A constant number at first, then a fiftieth of the time, as the longest rest allows."""
    steps = 2000
    took = cost * len(looked_up(cost, steps))
    assert took <= cost * 24 + 0.02 * steps
    assert looked_up(cost, 4) == [0, 1, 2, 3]


def test_a_draft_ends_the_rests() -> None:
    rests: Any = LookupRests()
    rests.note_cost(1.0)
    for _ in range(9):
        rests.note("sequence", found=False)
    assert rests.is_resting("sequence")
    rests.note("sequence", found=True)
    assert not rests.is_resting("sequence")


def test_there_are_no_rests_where_lookups_cost_nothing() -> None:
    rests: Any = LookupRests()
    for _ in range(9):
        rests.note("sequence", found=False)
    assert not rests.is_resting("sequence")

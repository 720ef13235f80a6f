"""Progress, rate and time left in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.base.pace import pace_text, time_text


@pytest.mark.parametrize(
    ("done", "total", "spent_s", "text"),
    [
        (0, 9, 5.0, "0/9 plays"),
        (3, 9, 0.0, "3/9 plays"),
        (3, 9, 6.0, "3/9 plays, 30.0 a minute, about 12 s left"),
        (500, 1000, 1.0, "500/1000 plays, 500 a second, about 1 s left"),
        (1, 3, 7200.0, "1/3 plays, 0.5 an hour, about 4 h 0 min left"),
        (9, 9, 3.0, "9/9 plays, 3.0 a second"),
    ],
)
def test_what_is_said(done: int, total: int, spent_s: float, text: str) -> None:
    assert pace_text(done, total, spent_s, "plays") == text


@given(st.floats(0.0, 1e7))
def test_times_are_short(seconds: float) -> None:
    assert len(time_text(seconds)) <= 12

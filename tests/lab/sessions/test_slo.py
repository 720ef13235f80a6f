"""Agents sustained within an SLO: turns that hold it, loads, and the rate between two loads."""

import pytest

from agentrt.base.errors import UsageError
from agentrt.lab.sessions.samples import AgentSample, TurnSample
from agentrt.lab.sessions.slo import (
    Slo,
    SloPoint,
    agents_at_once,
    next_rate,
    share_within,
    sustained,
)

SLO = Slo(first_token_s=2.0, tokens_a_second=10.0, share=0.9)


def turn(first_s: float | None, ended_s: float, tokens: int) -> TurnSample:
    return TurnSample("s", 0, 1.0, first_s, ended_s, 9, 3, tokens, tokens, "")


def agent(arrived_s: float, ended_s: float, *turns: TurnSample, error: str = "") -> AgentSample:
    return AgentSample("s", arrived_s, ended_s, turns, error)


@pytest.mark.parametrize(
    ("first_s", "ended_s", "tokens", "holds"),
    [
        (3.0, 3.5, 6, True),  # after 2 s, then 10 tokens a second
        (3.01, 3.5, 6, False),
        (2.0, 2.51, 6, False),
        (3.0, 9.0, 1, True),
        (None, 2.0, 0, False),
    ],
)
def test_a_turn_is_within_both_bounds(
    first_s: float | None, ended_s: float, tokens: int, holds: bool
) -> None:
    assert SLO.holds(turn(first_s, ended_s, tokens)) is holds


def test_turns_that_never_came_are_not_within_it() -> None:
    good, bad = turn(2.0, 2.05, 2), turn(9.0, 9.05, 2)
    agents = [agent(0, 1, good, good, bad), agent(0, 1, good, error="it broke")]
    assert share_within(agents, SLO, turns=6) == 0.5


@pytest.mark.parametrize("bounds", [(0, 1, 0.5), (1, 0, 0.5), (1, 1, 0), (1, 1, 1.1)])
def test_bounds_are_checked(bounds: tuple[float, float, float]) -> None:
    with pytest.raises(UsageError, match="is none"):
        Slo(*bounds)


def test_agents_are_counted_until_the_last_arrival() -> None:
    assert agents_at_once([agent(0, 4), agent(2, 9), agent(4, 99)]) == (4 + 2) / 4
    assert agents_at_once([agent(5, 6)]) == 1


def test_what_is_sustained_lies_between_two_loads() -> None:
    points = [SloPoint(0.4, 9.0, 0.7), SloPoint(0.2, 5.0, 0.95), SloPoint(0.0, 1.0, 1.0)]
    found = sustained(points, 0.9)
    assert found.bound == "between"
    assert found.agents == pytest.approx(5.0 + 4.0 * 0.2)
    assert found.rate == pytest.approx(0.2 + 0.2 * 0.2)


def test_a_load_behind_one_that_is_not_sustained_does_not_count() -> None:
    points = [SloPoint(0.1, 2, 1.0), SloPoint(0.2, 4, 0.5), SloPoint(0.3, 6, 1.0)]
    assert sustained(points, 0.9).rate < 0.2


def test_bounds_are_said() -> None:
    held, failed = SloPoint(0.1, 2, 1.0), SloPoint(0.2, 4, 0.5)
    assert sustained([held], 0.9).bound == "at least"
    assert sustained([failed], 0.9) == sustained([], 0.9)
    assert sustained([failed], 0.9).bound == "none"


@pytest.mark.parametrize("limit", [0.03, 0.7, 11.0])
def test_rates_are_tried_until_the_limit_lies_between_two(limit: float) -> None:
    points = [SloPoint(0.0, 1.0, 1.0)]
    while (rate := next_rate(points, 0.9, first=0.5, most=30)) is not None:
        points.append(SloPoint(rate, 10 * rate, 1.0 if rate <= limit else 0.5))
    found = sustained(points, 0.9)
    assert found.bound == "between"
    assert limit / 1.3 < found.rate < 1.3 * limit
    assert len(points) < 12


def test_the_search_ends() -> None:
    alone = SloPoint(0.0, 1.0, 0.5)
    assert next_rate([alone], 0.9, first=1.0) is None
    points = [SloPoint(0.0, 1.0, 1.0)]
    while (rate := next_rate(points, 0.9, first=1.0, most=4)) is not None:
        points.append(SloPoint(rate, 2 * rate, 1.0))
    assert [point.rate for point in points] == [0, 1, 2, 4, 8]


def test_the_search_ends_once_all_agents_are_under_way() -> None:
    points = [SloPoint(0.0, 1.0, 1.0)]
    while (rate := next_rate(points, 0.9, first=1.0)) is not None:
        points.append(SloPoint(rate, min(0.7 * rate, 2.0), 1.0))
    assert [point.rate for point in points] == [0, 1, 2, 4, 8]
    assert sustained(points, 0.9).bound == "at least"

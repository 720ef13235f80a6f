"""Figures of a play: cached tokens beside the ideal, medians by turn, the trend of a step."""

from dataclasses import replace
from random import Random

import pytest

from agentrt.lab.sessions.figures import by_turn, cached_by_ideal, figures, slo_point, step_drift
from agentrt.lab.sessions.lines import play_line, sustained_line, turn_lines
from agentrt.lab.sessions.play import SessionPlay
from agentrt.lab.sessions.samples import AgentSample, TurnSample
from agentrt.lab.sessions.slo import Slo, Sustained

SLO = Slo(1.0, 10.0)


def turn(number: int, step_s: float = 0.01, *, context: int = 100, at_s: float = 0) -> TurnSample:
    first_s = at_s + 0.5
    return TurnSample(
        "s", number, at_s, first_s, first_s + 4 * step_s, context, context // 2, 5, 5, "", 80
    )


def played(*turns: TurnSample, rate: float = 0.0, error: str = "") -> SessionPlay:
    return SessionPlay(rate, (AgentSample("s", 0.0, 9.0, turns, error),), len(turns))


def test_turns_know_their_times() -> None:
    one = turn(0, at_s=3.0)
    assert (one.first_token_s, one.latency_s) == pytest.approx((0.5, 0.54))
    assert one.step_s == pytest.approx(0.01)
    assert replace(one, first_s=None).step_s is None
    assert replace(one, output_tokens=1).step_s is None


def test_cached_tokens_are_compared_with_the_ideal() -> None:
    assert cached_by_ideal([turn(0), turn(1)]) == 100 / 160
    assert cached_by_ideal([turn(0), replace(turn(1), cached_tokens=None)]) is None
    assert cached_by_ideal([replace(turn(0), ideal_tokens=0)]) is None


def test_turns_are_grouped_by_their_number() -> None:
    found = by_turn([turn(1, 0.03), turn(0), turn(1, 0.01), turn(1, 0.02)])
    assert [(row["turn"], row["count"]) for row in found] == [(0, 1), (1, 3)]
    assert found[1]["step_s"] == pytest.approx(0.02)


def test_turns_of_subagents_are_not_mixed_in() -> None:
    other = replace(turn(0, 0.9), session="s/1")
    found = figures(played(turn(0), turn(1), other), SLO)
    assert [row["count"] for row in found["by_turn"]] == [1, 1]
    assert found["played_turns"] == 3


@pytest.mark.parametrize("drift", [0.0, 0.2, -0.1])
def test_the_trend_of_a_step_is_told_from_its_context(drift: float) -> None:
    random = Random(1)
    turns = [
        turn(number, 0.01 + 1e-7 * context + drift * 0.01 * number / 39, context=context)
        for begin in (1_000, 20_000, 40_000)
        for number in range(40)
        for context in (begin + 300 * number + random.randrange(2_000),)
    ]
    mean_s = sum(one.step_s or 0 for one in turns) / len(turns)
    assert step_drift(turns) == pytest.approx(drift * 0.01 / mean_s, abs=1e-9)


def test_a_trend_needs_turns_that_tell_it_apart() -> None:
    assert step_drift([turn(number) for number in range(4)]) is None
    assert step_drift([turn(number, context=100 * number) for number in range(20)]) is None
    assert step_drift([turn(0, context=at) for at in range(1, 20)]) is None
    random = Random(2)
    one_session = [turn(at, context=100 * at + random.randrange(400)) for at in range(57)]
    assert step_drift(one_session) is None


def test_one_agent_at_a_time_is_one_agent() -> None:
    assert slo_point(played(turn(0)), SLO).agents == 1
    found = figures(played(turn(0), turn(1), error="it broke"), SLO)
    assert found["errors"] == ["it broke"]
    assert found["exact_outputs"] == 2


def test_lines_say_what_is_not_known() -> None:
    unknown = replace(turn(0), prompt_tokens=None, cached_tokens=None, first_s=None)
    found = figures(played(unknown, rate=0.5), SLO)
    assert "cached tokens not reported" in play_line("e", 0.5, found)
    assert "first token ?" in turn_lines(found)[0]
    whole = figures(played(*(turn(number) for number in range(40))), SLO)
    assert "2000 of 4000 prompt tokens cached, 0.625 of the ideal 3200" in play_line("e", 0, whole)
    assert len(turn_lines(whole)) == 8
    line = sustained_line("e", Sustained(4.25, 0.2, "at least"), SLO)
    assert line.startswith("e sustains at least 4.2 agents at 0.2 a second (first token within 1 s")

"""The pace of a server: costs of tokens from the times of answers."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.scheduler.placement.server_pace import WINDOW_ANSWERS, ServerPace
from agentrt.scheduler.placement.worker_load import TokenCosts

GUESS = TokenCosts()


def answers(draw: random.Random, count: int) -> Iterator[tuple[float, float]]:
    """Prompt tokens that are computed, and output tokens: short chats and long prompts."""
    for _ in range(count):
        yield draw.choice([20.0, 60.0, 1500.0]) * draw.random(), 1.0 + draw.choice([8, 40, 200])


def served(
    pace: ServerPace, costs: TokenCosts, draw: random.Random, count: int, at_s: float
) -> float:
    """A server computes some answers after each other, and several at once share its time.

    Returns:
        The instant of the last one's end.
    """
    under_way: list[tuple[float, float]] = []
    for one in answers(draw, count):
        pace.begin(at_s)
        under_way.append(one)
        while len(under_way) > draw.randrange(4):
            prompt, output = under_way.pop(draw.randrange(len(under_way)))
            at_s += costs.work_s(prompt, output)
            pace.end(at_s, prompt, output)
    for prompt, output in under_way:
        at_s += costs.work_s(prompt, output)
        pace.end(at_s, prompt, output)
    return at_s


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-6, 1e-1), st.floats(0.25, 4.0), st.integers(0, 1 << 32), st.floats(0.0, 1e9))
def test_costs_are_learned_whatever_the_machine(
    slowness: float, ratio: float, seed: int, began_s: float
) -> None:
    true = TokenCosts(slowness * ratio, slowness * 8)
    pace, draw = ServerPace(GUESS), random.Random(seed)
    served(pace, true, draw, 40 * WINDOW_ANSWERS, began_s % 1e6)
    assert 1 / 3 < pace.costs.prefill_s / true.prefill_s < 3
    assert 1 / 3 < pace.costs.decode_s / true.decode_s < 3
    mix = list(answers(random.Random(1), 200))
    learned_s, true_s = (sum(one.work_s(*tokens) for tokens in mix) for one in (pace.costs, true))
    assert learned_s == pytest.approx(true_s, rel=0.2)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["begin", "end", "fail"]),
            st.floats(0, 1e4),
            st.floats(0, 1e6),
            st.floats(0, 1e6),
        ),
        max_size=80,
    )
)
def test_costs_stay_above_zero_whatever_is_reported(
    events: list[tuple[str, float, float, float]],
) -> None:
    pace, at_s = ServerPace(GUESS), 0.0
    for what, passed_s, prompt, output in events:
        at_s += passed_s
        if what == "begin":
            pace.begin(at_s)
        elif what == "end":
            pace.end(at_s, prompt, output)
        else:
            pace.fail(at_s)
        assert 0 < pace.costs.prefill_s < float("inf")
        assert 0 < pace.costs.decode_s < float("inf")


def test_the_first_answer_shows_how_fast_the_server_is() -> None:
    pace = ServerPace(GUESS)
    pace.begin(5.0)
    pace.end(5.0 + 10 * GUESS.work_s(800, 100), 800, 100)
    assert pace.costs.prefill_s == pytest.approx(10 * GUESS.prefill_s)
    assert pace.costs.decode_s == pytest.approx(10 * GUESS.decode_s)
    assert pace.answers == 1


def test_time_without_requests_does_not_count() -> None:
    busy, idle = ServerPace(GUESS), ServerPace(GUESS)
    at_s = 0.0
    for number in range(100):
        for pace, pause_s in ((busy, 0.0), (idle, 7.0)):
            began_s = at_s + pause_s * number
            pace.begin(began_s)
            pace.end(began_s + 1.0, 100, 50)
        at_s += 1.0
    assert idle.costs.decode_s == pytest.approx(busy.costs.decode_s)


def test_a_halted_server_does_not_count_as_slow() -> None:
    pace, draw = ServerPace(GUESS), random.Random(3)
    at_s = served(pace, GUESS, draw, 20 * WINDOW_ANSWERS, 0.0)
    pace.begin(at_s)
    pace.end(at_s + 3600, 100, 100)
    served(pace, GUESS, draw, WINDOW_ANSWERS, at_s + 3600)
    assert pace.costs.decode_s < 2 * GUESS.decode_s


def test_another_speed_is_learned_in_time() -> None:
    pace, draw = ServerPace(GUESS), random.Random(3)
    at_s = served(pace, GUESS, draw, 20 * WINDOW_ANSWERS, 0.0)
    slower = GUESS.times(10)
    served(pace, slower, draw, 20 * WINDOW_ANSWERS, at_s)
    assert pace.costs.decode_s == pytest.approx(slower.decode_s, rel=0.5)


def test_a_request_without_an_answer_shows_nothing() -> None:
    pace = ServerPace(GUESS)
    for _ in range(50):
        pace.begin(0.0)
        pace.fail(1000.0)
    assert pace.costs == GUESS
    assert pace.answers == 0

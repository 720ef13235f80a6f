"""Rates and concurrency of one server: decisions at given instants."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.remote.admission.request_pacer import RequestPacer


def sent(pacer, count, now_s, tokens=0.0):
    for _ in range(count):
        assert pacer.ready_at_s(now_s, tokens) <= now_s
        pacer.begin(now_s, tokens)


def test_no_more_are_in_flight_than_allowed():
    pacer = RequestPacer(concurrency=2)
    sent(pacer, 2, 0.0)
    assert pacer.ready_at_s(0.0, 0.0) == math.inf
    pacer.end(1.0, answered=True)
    assert pacer.ready_at_s(1.0, 0.0) == 1.0


def test_a_server_without_limits_gets_all_at_once():
    sent(RequestPacer(), 10_000, 0.0)


def test_a_refusal_halves_what_is_in_flight_once():
    pacer = RequestPacer()
    sent(pacer, 16, 0.0)
    for _ in range(16):
        pacer.refuse(1.0, 0.0, 0.0)
        pacer.end(1.0, answered=False)
    assert pacer.window == 8.0, "they were in flight together"
    sent(pacer, 8, 2.0)
    pacer.refuse(3.0, 2.0, 0.0)
    assert pacer.window == 4.0


def test_answers_let_it_grow_by_one_a_round():
    pacer = RequestPacer(concurrency=64)
    sent(pacer, 8, 0.0)
    pacer.refuse(0.0, 0.0, 0.0)
    for _ in range(8):
        pacer.end(0.0, answered=False)
    assert pacer.window == 4.0
    sent(pacer, 4, 1.0)
    for _ in range(4):
        pacer.end(2.0, answered=True)
    assert 4.9 < pacer.window < 5.0 + 1e-9


def test_a_first_window_grows_until_the_first_refusal():
    pacer = RequestPacer(first_window=4)
    sent(pacer, 4, 0.0)
    assert pacer.ready_at_s(0.0, 0.0) == math.inf
    for _ in range(4):
        pacer.end(1.0, answered=True)
    assert pacer.window == 8.0


def test_a_wait_that_is_asked_for_holds_for_all():
    pacer = RequestPacer()
    sent(pacer, 2, 0.0)
    pacer.refuse(1.0, 0.0, 20.0)
    pacer.end(1.0, answered=False)
    assert pacer.ready_at_s(2.0, 0.0) == math.inf, "one is in flight still, and one is allowed"
    pacer.end(2.0, answered=True)
    assert pacer.ready_at_s(2.0, 0.0) == 21.0
    assert pacer.ready_at_s(21.0, 0.0) == 21.0


def test_tokens_that_were_not_taken_are_given_back():
    pacer = RequestPacer(tokens_per_minute=600)
    sent(pacer, 1, 0.0, 100.0)
    assert pacer.ready_at_s(0.0, 100.0) == 10.0
    pacer.end(0.0, answered=True, unused_tokens=60.0)
    assert pacer.ready_at_s(0.0, 100.0) == 4.0


def test_a_request_larger_than_the_rate_is_sent_all_the_same():
    pacer = RequestPacer(tokens_per_minute=600)
    sent(pacer, 1, 0.0, 5_000.0)
    assert 400 < pacer.ready_at_s(0.0, 1.0) < 600, "later ones wait until it is paid for"


@settings(max_examples=100, derandomize=True, deadline=None)
@given(
    st.integers(1, 1200),
    st.lists(st.tuples(st.floats(0, 3), st.floats(1, 500)), min_size=5, max_size=60),
)
def test_rates_of_a_minute_are_not_exceeded(per_minute, requests):
    """Whatever comes: in any minute no more requests than the rate, and those of one second."""
    pacer, now_s, begun = RequestPacer(requests_per_minute=per_minute), 0.0, []
    for gap_s, _ in requests:
        now_s = max(now_s + gap_s, pacer.ready_at_s(now_s + gap_s, 0.0))
        pacer.begin(now_s, 0.0)
        begun.append(now_s)
    most = per_minute + max(1.0, per_minute / 60) + 1
    for start_s in begun:
        assert sum(start_s <= one < start_s + 60 for one in begun) <= most

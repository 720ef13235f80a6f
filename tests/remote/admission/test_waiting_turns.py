"""Requests that wait: whichever join, leave and join again, the most urgent one is found."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.ids import RequestId
from agentrt.protocol.backend import SchedulingInfo
from agentrt.remote.admission.request_turn import RequestTurn
from agentrt.remote.admission.waiting_turns import WaitingTurns
from agentrt.scheduler import Order, policy


def turn_of(number):
    """A request of which the policy knows nothing but its number."""
    turn = RequestTurn(number)
    turn.info = SchedulingInfo(RequestId(number), demanded=True)
    return turn


def test_a_request_that_joins_again_beside_others_has_its_old_place():
    """Its number and its key are those of the entry that it left behind."""
    waiting, first, second = WaitingTurns(Order(policy("fcfs"))), turn_of(0), turn_of(1)
    waiting.add(first, 0.0)
    waiting.add(second, 0.0)
    waiting.discard(first)
    waiting.add(first, 0.0)
    assert waiting.in_order(0.0, 2) == [first, second]
    assert [waiting.first(0.0)] == [first]
    waiting.discard(first)
    assert waiting.first(0.0) is second


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["add", "discard", "update"]), st.integers(0, 5))))
def test_the_first_is_the_first_of_the_order(moves):
    waiting, turns = WaitingTurns(Order(policy("rwa"))), [turn_of(at) for at in range(6)]
    here = set()
    for name, at in moves:
        if name == "add" and at not in here:
            waiting.add(turns[at], 0.0)
            here.add(at)
        elif name == "discard":
            waiting.discard(turns[at])
            here.discard(at)
        elif name == "update":
            waiting.update(turns[at], turns[at].info, 0.0)
        assert len(waiting) == len(here)
        first = waiting.in_order(0.0, 1)
        assert waiting.first(0.0) is (first[0] if first else None)
        waiting.overdue(0.0)

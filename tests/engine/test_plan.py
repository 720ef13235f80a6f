"""The pure part of planning."""

import pytest

from agentrt.backend import RequestFacts
from agentrt.cache import key_of
from agentrt.engine.plan import (
    StepPlan,
    VictimFacts,
    WaitingFacts,
    common_tokens,
    order_key,
    victim,
    waits_for_prefix,
)
from agentrt.ids import RequestId
from agentrt.scheduler import key

A, B, C, D = (RequestId(number) for number in range(1, 5))


def test_shares_never_exceed_the_budget():
    plan = StepPlan(10)
    assert [plan.give(one, wanted, 6) for one, wanted in ((A, 3), (B, 20), (C, 5))] == [3, 6, 1]
    assert plan.give(D, 5, 6) == 0
    assert plan.shares == {A: 3, B: 6, C: 1}
    plan.take_back(B)
    assert plan.left_tokens == 6


def test_the_order_of_waiting_sequences():
    def waiting(number, *, began_s=5.0, demanded=True, preempted=False, complete=True):
        request = RequestFacts(RequestId(number), demanded, began_s)
        return WaitingFacts(request, preempted, complete)

    facts = {
        "hole": waiting(0, complete=False),
        "undemanded": waiting(1, demanded=False),
        "first": waiting(2),
        "second": waiting(3),
        "older run": waiting(9, began_s=4.0),
        "again": waiting(4, preempted=True),
        "slack again": waiting(5, demanded=False, preempted=True),
    }
    order = sorted(facts, key=lambda name: order_key(7.0, facts[name]))
    demanded = ["again", "older run", "first", "second"]
    assert order == [*demanded, "slack again", "undemanded", "hole"]
    among = [facts[name].request for name in demanded[1:]]
    assert among == sorted(among, key=lambda one: key(7.0, one)), "as the scheduler's key says"


def test_the_victim_has_done_least():
    assert victim([]) is None
    some = [VictimFacts(A, 5, 10, 0), VictimFacts(B, 2, 10, 1), VictimFacts(C, 2, 40, 2)]
    assert victim(some) == C


@pytest.mark.parametrize("shared", [0, 1, 5, 63, 64])
def test_common_tokens(shared):
    one = list(range(64))
    other = one[:shared] + [1000 + at for at in range(shared, 64)]
    assert common_tokens(key_of(one), key_of(other)) == shared
    assert common_tokens(key_of(one), key_of(other[: shared // 2])) == shared // 2


@pytest.mark.parametrize(
    ("cached", "other_tokens", "waits"),
    [(0, 40, True), (0, 15, False), (32, 40, False), (16, 40, True), (0, 0, False)],
)
def test_waiting_pays_from_one_page_on(cached, other_tokens, waits):
    key = key_of(range(50))
    under_way = [key_of([*range(other_tokens), *range(900, 960)])]
    assert waits_for_prefix(key, cached, under_way, 16) is waits

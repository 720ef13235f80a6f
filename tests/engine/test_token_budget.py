"""The pure part of planning."""

from operator import attrgetter
from types import SimpleNamespace

import pytest

from agentrt.base.ids import RequestId
from agentrt.engine.scheduling.preemption import preemption_victim
from agentrt.engine.scheduling.token_budget import (
    TokenBudget,
    prefix_owner,
)
from agentrt.kv_cache import key_of
from agentrt.kv_cache.node import TOKEN_BYTES, common_bytes

A, B, C, D = (RequestId(number) for number in range(1, 5))


def test_shares_never_exceed_the_budget():
    plan = TokenBudget(10)
    assert [plan.grant(one, wanted, 6) for one, wanted in ((A, 3), (B, 20), (C, 5))] == [3, 6, 1]
    assert plan.grant(D, 5, 6) == 0
    assert plan.grant(B, 20, 6) == 6, "nothing is left"
    assert plan.scheduled_tokens == {A: 3, B: 6, C: 1}
    plan.revoke(B)
    assert plan.remaining_tokens == 6
    assert [plan.grant(C, 5, most) for most in (3, 4, 9)] == [3, 4, 5], "more comes on top"
    assert plan.remaining_tokens == 2


def test_the_victim_is_the_least_urgent_and_of_those_has_done_least():
    def victim(candidates):
        return preemption_victim(candidates, attrgetter("urgency"))

    def candidate(urgency, output_tokens, prompt_tokens, serial):
        return SimpleNamespace(
            urgency=urgency,
            output_tokens=output_tokens,
            prompt_tokens=prompt_tokens,
            serial=serial,
        )

    some = [
        candidate((1,), 5, 10, 0),
        candidate((1,), 2, 10, 1),
        candidate((1,), 2, 40, 2),
        candidate((0,), 0, 90, 3),
    ]
    assert victim([]) is None
    assert victim(some) is some[2]
    last = candidate((2,), 50, 1, 4)
    assert victim([*some, last]) is last
    assert victim([some[1], candidate((1,), 2, 10, 7)]).serial == 7


@pytest.mark.parametrize("unit_tokens", [1, 4])
@pytest.mark.parametrize("shared", [0, 1, 5, 63, 64])
def test_the_common_prefix_of_two_keys(shared, unit_tokens):
    one = list(range(64))
    other = one[:shared] + [1000 + at for at in range(shared, 64)]
    unit = unit_tokens * TOKEN_BYTES
    for cut in (64, shared // 2):
        whole = min(shared, cut) // unit_tokens * unit
        assert common_bytes(key_of(one), key_of(other[:cut]), unit) == whole


@pytest.mark.parametrize(
    ("cached", "other_tokens", "owner"),
    [
        (0, 40, 1),
        (0, 4, 1),
        (0, 3, None),
        (37, 40, None),
        (36, 40, 1),
        (0, 0, None),
        (46, 50, None),
    ],
)
def test_waiting_pays_from_four_tokens_on(cached, other_tokens, owner):
    key = key_of(range(50))
    under_way = [key_of(range(500, 550)), key_of([*range(other_tokens), *range(900, 960)])]
    assert prefix_owner(key, cached, under_way) == owner

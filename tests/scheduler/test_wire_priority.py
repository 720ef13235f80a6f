"""One integer for the place of a request: the parts of the order, from outside to inside."""

from agentrt.base.ids import RequestId
from agentrt.protocol.backend import SchedulingInfo
from agentrt.scheduler import Order, policy
from agentrt.scheduler.order.wire_priority import wire_priority

RWA = Order(policy("rwa"))


def of(order=RWA, **known):
    return wire_priority(order, SchedulingInfo(RequestId(1), **{"demanded": True, **known}))


def test_an_ordinary_request_is_like_one_without_a_priority():
    assert of(rest_s=3.0) == 0
    assert of(Order(policy("fcfs")), rest_s=900.0) == 0


def test_parts_count_from_outside_to_inside():
    ascending = [
        of(tenant_debt_s=-4.0, rest_s=900.0),
        of(priority=1, rest_s=900.0),
        of(deadline_at_s=4.0, path_p50_s=2.0, path_p90_s=3.0, rest_s=900.0),
        of(rest_s=0.5),
        of(rest_s=3.0),
        of(rest_s=900.0),
        of(deadline_at_s=4.0, path_p50_s=9.0, rest_s=0.5),
        of(priority=-1, rest_s=0.5),
        of(tenant_debt_s=4.0, rest_s=0.5),
        of(demanded=False, rest_s=0.5),
    ]
    assert ascending == sorted(ascending)
    assert len(set(ascending)) == len(ascending)


def test_waiting_makes_a_request_more_urgent():
    assert of(rest_s=900.0, waited_s=90_000.0) < of(rest_s=900.0)


def test_it_fits_where_others_of_the_order_are_out_of_range():
    most = of(demanded=False, tenant_debt_s=1e9, priority=-(10**9), rest_s=1e12)
    least = of(tenant_debt_s=-1e9, priority=10**9)
    assert -(2**31) < least < 0 < most < 2**31

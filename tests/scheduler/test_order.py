"""What holds around every policy: tenants, priorities, deadlines, and the express lane's entry."""

from typing import Any, get_args

import pytest

from agentrt.base.config import PolicyName as Name
from agentrt.base.ids import RequestId
from agentrt.protocol.backend import SchedulingInfo
from agentrt.scheduler import Order, policy
from agentrt.scheduler.order.order import TIE_BREAK_FROM, Slack, is_overdue, slack_of

NAMES: tuple[Name, ...] = get_args(Name)


def facts(number: int = 0, **known: Any) -> SchedulingInfo:
    return SchedulingInfo(RequestId(number), demanded=True, **{"true_rest_s": 1.0, **known})


@pytest.mark.parametrize("name", NAMES)
def test_tenants_then_priority_then_deadlines_then_the_policy(name: Name) -> None:
    tempting: dict[str, Any] = {"rest_s": 0.001, "true_rest_s": 0.001, "run_started_at_s": -1.0}
    held_back: dict[str, Any] = {"rest_s": 99.0, "true_rest_s": 99.0, "attained_s": 99.0}
    requests = [
        facts(1, tenant_debt_s=-3.0, priority=-1, **held_back),
        facts(2, tenant_debt_s=-1.0, priority=2, deadline_at_s=0.0, **held_back),
        facts(3, tenant_debt_s=-0.5, deadline_at_s=11.0, path_p90_s=9.0, **held_back),
        facts(4, tenant_debt_s=-0.5, deadline_at_s=12.0, path_p90_s=9.0, **held_back),
        facts(5, tenant_debt_s=-0.5, **tempting),
        facts(6, tenant_debt_s=-0.5, deadline_at_s=0.5, path_p50_s=8.0, **tempting),
        facts(7, tenant_debt_s=-0.5, priority=-1, **tempting),
        facts(8, tenant_debt_s=0.5, priority=5, **tempting),
    ]
    order = Order(policy(name))
    cached = {number: 900 * (number >= 5) for number in range(1, 9)}
    keys = {
        one.request_id: order.key(0.0, one, 900 - cached[one.request_id], cached[one.request_id])
        for one in reversed(requests)
    }
    assert sorted(keys, key=lambda number: keys[number]) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_tenants_differ_by_whole_quanta_only() -> None:
    order = Order(policy("fcfs"))
    near = [facts(at, tenant_debt_s=debt_s) for at, debt_s in ((1, 1.9), (2, 0.1))]
    assert order.key(0.0, near[0])[:TIE_BREAK_FROM] == order.key(0.0, near[1])[:TIE_BREAK_FROM]
    assert order.key(0.0, facts(3, tenant_debt_s=-0.1)) < order.key(0.0, near[0])
    assert order.key(0.0, facts(4, tenant_debt_s=2.0)) > order.key(0.0, near[1])


UNKNOWN = {"path_p90_s": 0.0, "path_p50_s": 0.0}
CLASSES: list[tuple[str, dict[str, float], Slack]] = [
    ("no deadline", {}, Slack.ON_TRACK),
    ("much time", {"deadline_at_s": 100.0}, Slack.ON_TRACK),
    ("as much as half a path more", {"deadline_at_s": 16.0}, Slack.ON_TRACK),
    ("a little less", {"deadline_at_s": 15.9}, Slack.AT_RISK),
    ("less than nine of ten need", {"deadline_at_s": 9.0}, Slack.AT_RISK),
    ("less than half of all need", {"deadline_at_s": 7.8}, Slack.HOPELESS),
    ("over", {"deadline_at_s": 1.0}, Slack.HOPELESS),
    ("over, of which nothing is known", {"deadline_at_s": 1.0, **UNKNOWN}, Slack.HOPELESS),
    ("far, of which nothing is known", {"deadline_at_s": 1.5, **UNKNOWN}, Slack.ON_TRACK),
]


@pytest.mark.parametrize(("what", "known", "expected"), CLASSES, ids=[one[0] for one in CLASSES])
def test_slack_classes(what: str, known: dict[str, Any], expected: Slack) -> None:
    path = {"path_p90_s": 10.0, "path_p50_s": 6.9}
    one = facts(**{**path, **known})
    found, slack_s = slack_of(1.0, one)
    assert found is expected
    if "deadline_at_s" in known:
        assert slack_s == pytest.approx(known["deadline_at_s"] - 1.0 - one.path_p90_s)


def test_at_risk_by_the_latest_instant_to_begin_whenever_that_is_worked_out() -> None:
    order = Order(policy("fcfs"))
    tight = facts(2, deadline_at_s=12.0, path_p90_s=11.0, path_p50_s=1.0)
    loose = facts(1, deadline_at_s=10.0, path_p90_s=8.0, path_p50_s=1.0)
    assert order.key(0.0, tight) < order.key(0.0, loose)
    assert order.key(1.0, tight) < order.key(0.0, loose) == order.key(0.5, loose)


def test_overdue_after_thirty_seconds_and_twenty_paths() -> None:
    assert not is_overdue(30.0, facts(), since_s=0.0)
    assert is_overdue(30.1, facts(), since_s=0.0)
    assert not is_overdue(30.1, facts(path_p90_s=2.0), since_s=0.0)
    assert is_overdue(40.1, facts(path_p90_s=2.0), since_s=0.0)
    assert not is_overdue(40.1, facts(path_p90_s=2.0), since_s=1.0)


def test_the_terms_tell_what_was_set_and_no_more() -> None:
    order = Order(policy("fcfs"))
    assert [name for name, _ in order.terms(0.0, facts())] == ["run_started_at_s"]
    known = facts(tenant_debt_s=5.0, priority=2, deadline_at_s=3.0, path_p90_s=2.5)
    assert dict(order.terms(0.0, known)) == {
        "tenant_quanta": 2.0,
        "priority": 2.0,
        "slack_class": 0.0,
        "slack_s": 0.5,
        "run_started_at_s": 0.0,
    }

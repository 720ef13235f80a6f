"""Each policy alone: what it goes by, and where it orders otherwise than every other one."""

from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.config import REPLAY_POLICIES
from agentrt.base.config import PolicyName as Name
from agentrt.base.errors import UsageError
from agentrt.base.ids import RequestId, RunId
from agentrt.protocol.backend import SchedulingInfo
from agentrt.scheduler import Order, policy
from agentrt.scheduler.policies.priority_key import aged_s, level_of

NAMES: tuple[Name, ...] = get_args(Name)
NOW_S = 100.0


def facts(number: int = 0, **known: Any) -> SchedulingInfo:
    known = {"run_started_at_s": 90.0 + number, "true_rest_s": 1.0, "as_of_s": NOW_S, **known}
    return SchedulingInfo(RequestId(number), demanded=True, run_id=RunId(f"r{number}"), **known)


def sorted_by(name: Name, *requests: tuple[SchedulingInfo, int, int], token_s: float = 0.0) -> str:
    """The requests, given as (facts, uncached, cached tokens), as letters in the policy's order."""
    order = Order(policy(name, token_s))
    keys = [
        (order.key(NOW_S, known, uncached, cached), at)
        for at, (known, uncached, cached) in enumerate(requests)
    ]
    return "".join("abcdef"[at] for _, at in sorted(keys))


SCENARIOS: dict[
    Name, tuple[str, tuple[SchedulingInfo, int, int], tuple[SchedulingInfo, int, int]]
] = {
    "fcfs": (
        "the run that began first, though it is long, had much and shares nothing",
        (facts(1, rest_s=100.0, attained_s=50.0, true_rest_s=100.0), 900, 0),
        (facts(2, rest_s=1.0, attained_s=1.0, true_rest_s=1.0), 100, 800),
    ),
    "lpm": (
        "what the cache knows, though its run is late, long, and had much",
        (facts(2, rest_s=100.0, attained_s=50.0, true_rest_s=100.0), 100, 800),
        (facts(1, rest_s=1.0, attained_s=1.0, true_rest_s=1.0), 100, 0),
    ),
    "plas": (
        "the run that had nothing, though it is late and will be long",
        (facts(2, rest_s=100.0, attained_s=0.0, true_rest_s=100.0), 900, 0),
        (facts(1, rest_s=1.0, attained_s=60.0, true_rest_s=1.0), 100, 800),
    ),
    "rwa": (
        "the run that is thought to be nearly done, though that is wrong",
        (facts(2, rest_s=1.0, attained_s=60.0, true_rest_s=100.0), 900, 0),
        (facts(1, rest_s=50.0, attained_s=0.0, true_rest_s=1.0), 100, 800),
    ),
    "oracle": (
        "the run that is nearly done and waited long, though it is thought to be long",
        (facts(2, rest_s=50.0, attained_s=60.0, true_rest_s=4.0, waited_s=2000.0), 900, 0),
        (facts(1, rest_s=1.0, attained_s=0.0, true_rest_s=3.0), 100, 800),
    ),
    "clairvoyant": (
        "the run that is nearest to its end, however long another has waited",
        (facts(2, rest_s=50.0, attained_s=60.0, true_rest_s=2.0), 900, 0),
        (facts(1, rest_s=1.0, attained_s=0.0, true_rest_s=3.0, waited_s=2000.0), 100, 800),
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_each_policy_differs_from_every_other(name: Name) -> None:
    what, first, second = SCENARIOS[name]
    assert sorted_by(name, first, second) == "ab", what
    others = {other: sorted_by(other, first, second) for other in NAMES if other != name}
    assert set(others.values()) == {"ba"}, others


@pytest.mark.parametrize("name", NAMES)
def test_the_terms_of_a_key_are_told_by_name(name: Name) -> None:
    one = policy(name, token_s=1e-3)
    assert one.name == name
    known = facts(rest_s=3.0, attained_s=1.0, waited_s=2.0, waiting=1, as_of_s=NOW_S - 1.0)
    terms = dict(one.terms(NOW_S, known, 500, 100))
    expected = {
        "fcfs": {"run_started_at_s": 90.0},
        "lpm": {"cached_tokens": 100.0},
        "plas": {"attained_s": 1.0, "waited_s": 3.0},
        "rwa": {"rest_s": 3.0, "waited_s": 3.0, "uncached_s": 0.5, "level": 12.0},
        "oracle": {"rest_s": 1.0, "attained_s": 1.0},
        "clairvoyant": {"true_rest_s": 1.0, "uncached_s": 0.5},
    }[name]
    assert {term: terms[term] for term in expected} == pytest.approx(expected)
    assert all(type(value) is float for value in terms.values()), "they travel as floats"


@pytest.mark.parametrize("name", REPLAY_POLICIES)
def test_nothing_but_a_replay_is_ordered_by_what_it_will_need(name: Name) -> None:
    with pytest.raises(UsageError, match=r"request 7 of run r7 does not tell .* policy 'rwa'"):
        policy(name).key(0.0, facts(7, true_rest_s=None), 10)


def test_a_run_of_which_nothing_is_known_counts_by_what_it_had() -> None:
    new, begun, nearly_done = (
        facts(1, attained_s=0.0),
        facts(2, attained_s=5.0),
        facts(3, attained_s=5.0, rest_s=0.5),
    )
    assert sorted_by("rwa", (begun, 0, 0), (nearly_done, 0, 0), (new, 0, 0)) == "cba"


def test_waiting_makes_urgent_and_goes_on_after_it_was_told() -> None:
    long, short = facts(1, rest_s=20.0, waited_s=0.0), facts(2, rest_s=4.0)
    assert sorted_by("rwa", (long, 0, 0), (short, 0, 0)) == "ba"
    waited = facts(1, rest_s=20.0, waited_s=1000.0)
    assert sorted_by("rwa", (waited, 0, 0), (short, 0, 0)) == "ab"
    waits = facts(1, rest_s=20.0, waiting=1, as_of_s=NOW_S - 1000.0)
    assert sorted_by("rwa", (waits, 0, 0), (short, 0, 0)) == "ab"


def test_small_changes_leave_the_order_to_arrival() -> None:
    first, second = facts(1, rest_s=3.9), facts(2, rest_s=2.1)
    assert sorted_by("rwa", (second, 0, 0), (first, 0, 0)) == "ba", "of one power of two"
    assert sorted_by("rwa", (facts(2, rest_s=1.9), 0, 0), (first, 0, 0)) == "ab"


def test_inside_a_run_the_longest_path_goes_first_but_not_across_runs() -> None:
    near = facts(1, rest_s=3.0, rank_s=0.5, run_started_at_s=1.0)
    far = facts(2, rest_s=3.0, rank_s=2.5, run_started_at_s=1.0)
    later = facts(3, rest_s=3.0, rank_s=9.0, run_started_at_s=2.0)
    assert sorted_by("rwa", (near, 0, 0), (later, 0, 0), (far, 0, 0)) == "cab"


def test_what_the_cache_does_not_know_is_work() -> None:
    known = facts(2, rest_s=1.5), 0, 4000
    unknown = facts(1, rest_s=1.5), 4000, 0
    assert sorted_by("rwa", unknown, known, token_s=1e-3) == "ba"
    assert sorted_by("rwa", unknown, known) == "ab", "where nobody knows what a token takes"


def test_queues_of_attained_service_do_not_collapse_when_all_are_late() -> None:
    """The rule that promotes whoever waited long puts all of these into the first queue."""
    late = [facts(at, attained_s=4.0**at, waited_s=10 * 8 * 4.0**at) for at in (3, 2, 1)]
    assert sorted_by("plas", *[(one, 0, 0) for one in late]) == "cba"
    same = facts(4, attained_s=0.09), facts(3, attained_s=0.0)
    assert policy("plas").key(0.0, same[0], 0) == policy("plas").key(0.0, same[1], 0) == (0.0,)


def test_longest_prefixes_have_a_bound() -> None:
    order = Order(policy("lpm"))
    assert order.limited_to(128) is order
    beyond = order.limited_to(129)
    assert beyond.policy.name == "fcfs"
    cached, first = facts(2), facts(1)
    assert order.key(0.0, cached, 0, 900) < order.key(0.0, first, 900, 0)
    assert beyond.key(0.0, cached, 0, 900) > beyond.key(0.0, first, 900, 0)


spans = st.floats(0.0, 1e5)


@settings(deadline=None, derandomize=True)
@given(size_s=spans, service_s=spans, first_s=spans, more_s=spans)
def test_waiting_never_makes_less_urgent(
    size_s: float, service_s: float, first_s: float, more_s: float
) -> None:
    fresh, late = (aged_s(size_s, service_s, wait) for wait in (first_s, first_s + more_s))
    assert 0.0 <= late <= fresh <= size_s
    assert level_of(late) <= level_of(fresh)


@settings(deadline=None, derandomize=True)
@given(rest_s=st.floats(1e-3, 1e4), other_s=st.floats(1e-3, 1e4))
def test_every_run_comes_to_the_front_by_waiting(rest_s: float, other_s: float) -> None:
    """However small the others are that keep coming: waiting for so long is enough."""
    needed_s = (8 * rest_s + 0.05) * (2 * rest_s / other_s)
    waited, fresh = facts(1, rest_s=rest_s, waited_s=needed_s), facts(2, rest_s=other_s)
    assert sorted_by("rwa", (fresh, 0, 0), (waited, 0, 0)) == "ba"

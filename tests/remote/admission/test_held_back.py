"""Requests held back before a server: what order is worth there, and what holds whatever comes."""

from statistics import mean
from typing import Any

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.ids import RequestId
from agentrt.protocol.backend import SchedulingInfo
from agentrt.remote.admission.admission_queue import AdmissionQueue
from agentrt.remote.admission.request_pacer import RequestPacer
from agentrt.scheduler import Order, policy
from agentrt.testing import LoopClock, run_virtual
from tests.remote.token_engine import Load, TokenEngine, slowdowns

MIXED = [Load(f"long{at}", at / 4, 3, 120) for at in range(4)]
MIXED += [Load(f"short{at}", at / 4, 2, 20) for at in range(10)]


def played(loads, slots, *, in_flight, name="rwa"):
    """Slowdowns of the programs, and the engine."""
    engine = TokenEngine(slots)

    async def main():
        queue = AdmissionQueue(RequestPacer(in_flight), Order(policy(name)), LoopClock())
        try:
            return await slowdowns(queue, engine, loads)
        finally:
            queue.close()

    return run_virtual(main), engine


def test_order_before_the_server_shortens_programs():
    """The same engine, first come first served: only what is held back can be ordered."""
    ordered, engine = played(MIXED, 2, in_flight=2)
    unordered, behind = played(MIXED, 2, in_flight=0)
    by_arrival, _ = played(MIXED, 2, in_flight=2, name="fcfs")
    assert engine.most == 2
    assert behind.most == len(MIXED), "without a bound all waiting is in the server's queue"
    assert mean(ordered.values()) < 0.7 * mean(unordered.values())
    assert mean(ordered.values()) < 0.7 * mean(by_arrival.values())
    assert max(ordered.values()) < max(unordered.values())


def test_holding_back_keeps_the_server_busy():
    _, held = played(MIXED, 2, in_flight=2)
    _, sent = played(MIXED, 2, in_flight=0)
    assert sorted(held.order) == sorted(sent.order)
    assert held.most <= 2 < sent.most


def test_a_long_program_is_served_beside_endless_short_ones():
    """Short ones come faster than they are served; ageing lets the long one by all the same."""
    short = [Load(f"short{at}", at * 9.0, 1, 10) for at in range(400)]
    found, engine = played([Load("long", 5.0, 1, 100), *short], 1, in_flight=1)
    assert engine.order.index("long") < 300
    assert len(found) == 401


@settings(max_examples=40, derandomize=True, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 4), st.integers(1, 40)),
        min_size=1,
        max_size=25,
    ),
    st.integers(1, 4),
    st.integers(1, 6),
    st.sampled_from(["fcfs", "lpm", "plas", "rwa"]),
)
def test_never_more_than_the_bound_and_all_end(drawn, slots, in_flight, name):
    loads = [Load(f"p{at}", *one) for at, one in enumerate(drawn)]
    found, engine = played(loads, slots, in_flight=in_flight, name=name)
    assert engine.most <= in_flight
    assert len(found) == len(loads)
    assert len(engine.order) == sum(load.steps for load in loads)


def info(number, **known):
    return SchedulingInfo(RequestId(number), **{"demanded": True, **known})


def admitted(infos, *, changes=None):
    """Admissions behind one request in flight, in their order."""

    async def main():
        queue = AdmissionQueue(RequestPacer(1), Order(policy("rwa")), LoopClock())
        first = queue.turn()
        found: list[Any] = []
        await queue.begin(first)
        turns = []

        async def wait(turn):
            await queue.begin(turn)
            queue.end(turn, answered=True)

        async with anyio.create_task_group() as tasks:
            for one in infos:
                turn = queue.turn()
                turn.info, turn.on_admitted = one, found.append
                turns.append(turn)
                tasks.start_soon(wait, turn)
            await anyio.wait_all_tasks_blocked()
            for at, one in (changes or {}).items():
                queue.update(turns[at], one)
            await anyio.sleep(1.0)
            queue.end(first, answered=True)
        return found

    return run_virtual(main)


def test_tenants_users_deadlines_and_demand_go_before_the_policy():
    order = [
        info(6, demanded=False, rest_s=0.1),
        info(5, tenant_debt_s=4.0, rest_s=0.1),
        info(4, rest_s=9.0),
        info(3, rest_s=1.0),
        info(2, rest_s=9.0, deadline_at_s=1004.0, path_p50_s=2.0, path_p90_s=3.0),
        info(1, rest_s=50.0, priority=1),
    ]
    assert [one.request_id for one in admitted(order)] == [1, 2, 3, 4, 5, 6]


def test_new_scheduling_info_moves_a_request():
    found = admitted([info(1, rest_s=8.0), info(2, rest_s=64.0)], changes={1: info(2, rest_s=0.5)})
    assert [one.request_id for one in found] == [2, 1]


def test_an_admission_says_why_it_was_not_before():
    first, second = admitted([info(1, rest_s=1.0), info(2, rest_s=30.0)])
    assert (first.policy, first.waited_s, first.waiting) == ("rwa", 1.0, 1)
    assert first.passed_over == (("in_flight", 1),)
    assert second.passed_over == (("in_flight", 2),)
    assert dict(second.terms)["rest_s"] == 30.0


def test_an_overdue_request_goes_first_whatever_the_policy_says():
    late = info(1, priority=-1, rest_s=900.0)

    async def main():
        queue = AdmissionQueue(RequestPacer(1), Order(policy("rwa")), LoopClock())
        busy = queue.turn()
        found: list[Any] = []
        await queue.begin(busy)

        async def wait(one):
            turn = queue.turn()
            turn.info, turn.on_admitted = one, found.append
            await queue.begin(turn)
            queue.end(turn, answered=True)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait, late)
            await anyio.sleep(31.0)
            tasks.start_soon(wait, info(2, rest_s=0.1))
            await anyio.wait_all_tasks_blocked()
            queue.end(busy, answered=True)
        return found

    found = run_virtual(main)
    assert [one.request_id for one in found] == [1, 2]
    assert dict(found[0].terms)["overdue"] == 1.0

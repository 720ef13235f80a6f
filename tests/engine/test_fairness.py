"""What waits under pressure: bounds on waiting, on the express lane, and between tenants.

The scheduler, the pages and the policies are the engine's own; time is virtual, and a step takes as
long whatever is in it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.config import PolicyName
from agentrt.engine.scheduling import waiting_queue
from agentrt.scheduler.estimates.step_model import StepTime
from agentrt.scheduler.order.order import OVERDUE_S, OVERDUE_SHARE, QUANTUM_S
from agentrt.scheduler.runs.fair_share import FairShare
from tests.engine.step_engine import PAGE, STEP_S, Engine, Job

POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)
PAGES, SLOTS, STEP_TOKENS = 24, 4, 40
LONGEST_PROMPT, LONGEST_OUTPUT = 60, 12

jobs = st.builds(
    Job,
    prompt_tokens=st.integers(1, LONGEST_PROMPT),
    output_tokens=st.integers(1, LONGEST_OUTPUT),
    facts=st.fixed_dictionaries(
        {
            "rest_s": st.sampled_from([0.0, 0.01, 1.0, 500.0]),
            "true_rest_s": st.sampled_from([0.01, 1.0, 500.0]),
            "attained_s": st.sampled_from([0.0, 1.0, 500.0]),
            "priority": st.sampled_from([-5, 0, 0, 5]),
            "tenant_debt_s": st.sampled_from([-50.0, 0.0, 0.0, 50.0]),
            "output_tokens": st.sampled_from([0.0, 1.0, float(LONGEST_OUTPUT)]),
        }
    ),
)
arrivals = st.lists(st.tuples(st.integers(0, 3), jobs), min_size=2, max_size=60)


def serve_all(engine: Engine, coming: list[tuple[int, Job]], most_steps: int = 4000) -> None:
    """Submit each job so many steps after the one before, and step until all are done."""
    todo = list(coming)
    pause = todo[0][0] if todo else 0
    for _ in range(most_steps):
        while todo and pause == 0:
            engine.submit(todo.pop(0)[1])
            pause = todo[0][0] if todo else 0
        pause -= 1
        engine.step()
        if not todo and not len(engine.scheduler):
            return
    raise AssertionError(f"{len(engine.scheduler)} are still there")


def bound_s(job: Job, earlier: int) -> float:
    """Until when a job is done: once overdue it waits for those that are overdue before it.

    Of each of those, and of itself: what runs has to make room (its prompt from what the lane
    leaves, its output a token a step), then a prompt comes from the lane alone, then the output.
    """
    lane_tokens = max(PAGE, int(OVERDUE_SHARE * STEP_TOKENS))
    left_tokens = STEP_TOKENS - SLOTS - lane_tokens
    room_steps = SLOTS * LONGEST_PROMPT / left_tokens + LONGEST_OUTPUT
    own_steps = (LONGEST_PROMPT + LONGEST_OUTPUT) / lane_tokens + LONGEST_OUTPUT
    return job.submitted_s + OVERDUE_S + STEP_S * (2 + (earlier + 1) * (room_steps + own_steps))


@pytest.mark.parametrize("policy", POLICIES)
@given(coming=arrivals, learns=st.booleans())
@settings(max_examples=12, deadline=None, derandomize=True)
def test_no_program_starves(
    policy: PolicyName, coming: list[tuple[int, Job]], *, learns: bool
) -> None:
    """Also where prompts cost so much that they yield to any output."""
    engine = Engine(policy, pages=PAGES, slots=SLOTS, step_tokens=STEP_TOKENS)
    if learns:
        engine.learn_costs(StepTime(STEP_S, STEP_S, 0.0, 0.0))
        engine.costs = StepTime(STEP_S, 0.0, 0.0, 0.0)
    serve_all(engine, [(gap, replace(job)) for gap, job in coming])
    for number, job in enumerate(engine.jobs):
        overdue_s = job.submitted_s + OVERDUE_S
        before = [other for other in engine.jobs[:number] if (other.ended_s or 0.0) > overdue_s]
        assert job.ended_s is not None
        assert job.ended_s <= bound_s(job, len(before))


def flooded(policy: PolicyName, steps: int) -> Job:
    """A large job of low priority among small ones of a high one that never stop coming."""
    engine = Engine(policy, pages=PAGES, slots=SLOTS, step_tokens=STEP_TOKENS)
    low = Job(60, 12, {"priority": -1, "rest_s": 500.0, "true_rest_s": 500.0, "attained_s": 9.0})
    small = Job(40, 4, {"priority": 1, "rest_s": 0.01, "true_rest_s": 0.01})
    for at in range(steps):
        engine.submit(replace(small))
        if at == 3:
            engine.submit(low)
        engine.step()
    return low


@pytest.mark.parametrize("policy", POLICIES)
def test_a_flood_of_higher_priority_holds_nobody_back_for_ever(
    policy: PolicyName, monkeypatch: pytest.MonkeyPatch
) -> None:
    low = flooded(policy, steps=120)
    assert low.ended_s is not None
    assert low.submitted_s + OVERDUE_S < low.ended_s <= bound_s(low, earlier=3)
    monkeypatch.setattr(waiting_queue, "is_overdue", lambda *_: False)
    assert flooded(policy, steps=400).ended_s is None, "nothing else would have let it in"


def test_the_express_lane_gets_its_share_of_a_step_and_no_more() -> None:
    """While others want the rest; what they leave goes to whoever is there."""
    step_tokens = 200
    share = int(OVERDUE_SHARE * step_tokens)
    engine = Engine("rwa", pages=4000, slots=64, step_tokens=step_tokens)
    for _ in range(3):
        engine.submit(Job(150, 1, {"priority": -1}))
    engine.now_s += OVERDUE_S + 1.0
    for _ in range(8):
        engine.submit(Job(150, 1, {"priority": 1}))
    first = engine.step()
    assert first == {0: share, 3: 150, 4: step_tokens - 150 - share}, "one of three, up to a tenth"
    for _ in range(5):
        given = engine.step()
        assert sum(count for number, count in given.items() if number < 3) == share
        assert sum(given.values()) > step_tokens - 5
    while len(engine.scheduler):
        engine.step()
    assert [job.ended_s for job in engine.jobs[:3]] == sorted(
        job.ended_s or 0.0 for job in engine.jobs[:3]
    ), "in the order in which they came"


def test_the_express_lane_has_a_tenth_of_the_slots() -> None:
    """Or tenants and priorities would not count any more once everybody is late."""
    engine = Engine("rwa", pages=4000, slots=20, step_tokens=2000)
    for number in range(120):
        engine.submit(Job(30, 10, {"priority": -(number % 2)}))
    engine.now_s += OVERDUE_S + 1.0
    assert set(engine.step()) == {0, 1, *range(2, 38, 2)}, "two by the lane, by priority the others"
    while engine.jobs[1].ended_s is None:
        engine.step()
    engine.step()
    assert [number for number in engine.scheduler.running if number % 2] == [3, 5]


def test_one_overdue_request_goes_on_however_small_a_tenth_is() -> None:
    engine = Engine("rwa", pages=100, slots=8, step_tokens=10)
    engine.submit(Job(8, 1, {"priority": -1}))
    engine.now_s += OVERDUE_S + 1.0
    engine.submit(Job(50, 1, {"priority": 1}))
    assert engine.step() == {0: PAGE, 1: 10 - PAGE}


def test_who_does_not_fit_lets_sixteen_pass_and_then_nobody() -> None:
    engine = Engine("rwa", pages=20, slots=8, step_tokens=60)
    engine.submit(Job(40, 30, {"rest_s": 1.0, "output_tokens": 30.0}))
    engine.step()
    engine.submit(Job(50, 1, {"rest_s": 1.0}))
    for _ in range(25):
        engine.submit(Job(4, 1, {"rest_s": 500.0}))
        engine.step()
    done = [job.ended_s is not None for job in engine.jobs]
    assert done == [False, False, *[True] * 16, *[False] * 9]
    while not engine.jobs[0].ended_s:
        engine.step()
    engine.step()
    assert engine.jobs[1].ended_s is not None, "it was next"


nodes = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 8)), min_size=12, max_size=20)


@pytest.mark.parametrize("policy", POLICIES)
@given(ours=nodes, theirs=nodes)
@settings(max_examples=12, deadline=None, derandomize=True)
def test_backlogged_tenants_have_the_same_up_to_two_quanta_or_nodes(
    policy: PolicyName, ours: list[tuple[int, int]], theirs: list[tuple[int, int]]
) -> None:
    """One slot: a node has the engine to itself, so its service is the time that it took."""
    engine = Engine(policy, pages=40, slots=1, step_tokens=4)
    owners: dict[int, str] = {}
    everybody = FairShare()
    accounts = {tenant: everybody.begin_run(tenant) for tenant in ("ours", "theirs")}
    largest_s = 0.0
    never_overdue = {"path_p90_s": 1000.0}  # with one slot the express lane would have all of it
    for tenant, work in (("ours", ours), ("theirs", theirs)):
        rest_s = 0.1 if tenant == "ours" else 100.0  # every policy would take ours first
        for prompt_tokens, output_tokens in work:
            owners[len(engine.jobs)] = tenant
            facts = {"tenant": tenant, "rest_s": rest_s, "true_rest_s": rest_s, **never_overdue}
            engine.submit(Job(prompt_tokens, output_tokens, facts))
    while True:
        waiting = {owners[one.request.request_id] for one in engine.scheduler}
        if len(waiting) < 2:
            return
        for sequence in engine.scheduler:
            tenant = owners[sequence.request.request_id]
            debt_s = accounts[tenant].debt_s
            engine.scheduler.update_info(replace(sequence.info, tenant_debt_s=debt_s))
        before = len(engine.scheduler)
        began_s = engine.now_s
        while len(engine.scheduler) == before:
            engine.step()
        (runs,) = engine.served
        accounts[owners[runs]].charge(engine.now_s - began_s)
        largest_s = max(largest_s, engine.now_s - began_s)
        apart_s = abs(accounts["ours"].counter_s - accounts["theirs"].counter_s)
        assert apart_s <= 2 * max(QUANTUM_S, largest_s)

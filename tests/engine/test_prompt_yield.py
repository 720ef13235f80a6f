"""Prompts and decodes: which waits for the other, by the sum of the delays."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.config import PolicyName
from agentrt.engine.scheduling.prompt_yield import is_later_better
from agentrt.scheduler.estimates.step_model import StepTime
from tests.engine.step_engine import Engine, Job

COSTS = StepTime(base_s=0.02, prefill_s=0.002, decode_s=0.001, kv_s=0.0)
URGENT = {"rest_s": 0.01, "true_rest_s": 0.01}
LATER = {"rest_s": 500.0, "true_rest_s": 500.0}

seconds = st.floats(0.01, 100.0)


def begun(policy: PolicyName, *, output: int = 4, learns: bool = True) -> Engine:
    """An engine on which an urgent program decodes, as others wait or come."""
    engine = Engine(policy, pages=400, slots=8, step_tokens=200)
    if learns:
        engine.learn_costs(COSTS)
    engine.submit(Job(4, output, {**URGENT, "output_tokens": float(output)}))
    engine.step()
    return engine


def prefilled(engine: Engine, job: int, steps: int = 12) -> list[int]:
    """Steps in which tokens of a job's prompt are computed."""
    return [at for at in range(steps) if job in engine.step()]


@settings(max_examples=200, derandomize=True)
@given(prompt_s=seconds, gaps_s=st.lists(seconds, max_size=6), prompts=st.integers(1, 8))
def test_the_smaller_sum_of_delays_decides(
    prompt_s: float, gaps_s: list[float], prompts: int
) -> None:
    ends_s = list(accumulate(gaps_s))

    def saved_s(decodes: int) -> float:
        waited_s = ends_s[decodes - 1] if decodes else 0.0
        return decodes * prompt_s - prompts * waited_s

    best_s = max(map(saved_s, range(len(ends_s) + 1)))
    assert is_later_better(prompt_s, ends_s, prompts) == (best_s > 0.0)


def test_a_long_prompt_waits_for_an_urgent_output_that_ends_sooner() -> None:
    engine = begun("clairvoyant")
    engine.submit(Job(100, 4, LATER))
    assert prefilled(engine, 1) == [3], "behind the three tokens that are left"


@pytest.mark.parametrize("policy", ["fcfs", "lpm", "plas", "rwa", "oracle"])
def test_other_policies_compute_it_at_once(policy: PolicyName) -> None:
    engine = begun(policy)
    engine.submit(Job(100, 4, LATER))
    assert prefilled(engine, 1) == [0]


def test_a_short_prompt_goes_first() -> None:
    engine = begun("clairvoyant")
    engine.submit(Job(10, 4, LATER))
    assert prefilled(engine, 1) == [0], "20 ms of it are less than three steps"


def test_a_more_urgent_prompt_goes_first() -> None:
    engine = Engine("clairvoyant", pages=400, slots=8, step_tokens=200)
    engine.learn_costs(COSTS)
    engine.submit(Job(4, 4, {**LATER, "output_tokens": 4.0}))
    engine.step()
    engine.submit(Job(100, 4, URGENT))
    assert prefilled(engine, 1) == [0]


def test_an_output_that_goes_on_for_long_is_not_waited_for() -> None:
    engine = begun("clairvoyant", output=20)
    engine.submit(Job(100, 4, LATER))
    assert prefilled(engine, 1) == [0], "19 steps of 21 ms are more than 200 ms"


def test_many_prompts_do_not_wait_for_one_output() -> None:
    engine = begun("clairvoyant")
    for _ in range(4):
        engine.submit(Job(100, 4, LATER))
    assert prefilled(engine, 1) == [0], "four prompts would wait for 60 ms to spare one 200"


@pytest.mark.parametrize(
    ("policy", "first"), [("fcfs", 900), ("rwa", 200), ("oracle", 200), ("clairvoyant", 200)]
)
def test_a_step_takes_at_most_twenty_times_its_fixed_time(policy: PolicyName, first: int) -> None:
    """20 ms of a step are worth 200 tokens of 2 ms; the others take what fits."""
    engine = Engine(policy, pages=400, slots=8, step_tokens=1000)
    engine.learn_costs(COSTS)
    engine.submit(Job(900, 4, LATER))
    assert engine.step() == {0: first}


def test_an_urgent_prompt_comes_in_between_the_parts_of_a_long_one() -> None:
    engine = Engine("clairvoyant", pages=400, slots=8, step_tokens=1000)
    engine.learn_costs(COSTS)
    engine.submit(Job(900, 4, LATER))
    engine.step()
    engine.submit(Job(50, 1, URGENT))
    assert engine.step() == {0: 150, 1: 50}


def test_nothing_waits_while_costs_are_unknown() -> None:
    engine = begun("clairvoyant", learns=False)
    engine.submit(Job(100, 4, LATER))
    assert prefilled(engine, 1) == [0]


def test_an_output_beyond_its_expected_length_is_expected_to_double() -> None:
    """Or a prompt would wait for the next token again and again."""
    engine = Engine("clairvoyant", pages=400, slots=8, step_tokens=200)
    engine.learn_costs(COSTS)
    engine.submit(Job(4, 60, {**URGENT, "output_tokens": 4.0}))
    for _ in range(30):
        engine.step()
    engine.submit(Job(100, 4, LATER))
    assert prefilled(engine, 1) == [0]


def test_a_prompt_tells_what_it_waited_for() -> None:
    engine = begun("clairvoyant")
    engine.submit(Job(100, 4, LATER))
    for _ in range(4):
        engine.step()
    late = [one for one in engine.scheduler.queue.take_admissions() if one.request_id == 1]
    assert [dict(one.passed_over) for one in late] == [{"decodes": 3}]


def test_a_prompt_takes_few_steps_even_if_steps_seem_to_cost_nothing_fixed() -> None:
    engine = Engine("rwa", pages=400, slots=8, step_tokens=200)
    engine.learn_costs(StepTime(base_s=1e-6, prefill_s=0.002, decode_s=0.001, kv_s=0.0))
    engine.submit(Job(100, 4, LATER))
    assert [engine.step().get(0, 0) for _ in range(4)] == [32, 32, 32, 4]

"""When holding runs back is worth it: by what contexts cost, and what steps cost in themselves."""

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.protocol.step_output import Ledger, StepRecord
from agentrt.scheduler.admission.benefit import (
    HIGH,
    LOW,
    MIN_SAMPLES,
    NO_BENEFIT,
    AdmissionBenefit,
)
from agentrt.scheduler.admission.controller import AdmissionControl
from agentrt.scheduler.estimates.step_model import StepTime

Make = Callable[..., Any]
CHEAP_PROMPTS = StepTime(base_s=8e-3, prefill_s=2e-4, decode_s=1e-3, kv_s=0.0)
DEAR_PROMPTS = StepTime(base_s=8e-3, prefill_s=2e-3, decode_s=1e-3, kv_s=0.0)


def step(index: int, time: StepTime) -> StepRecord:
    prefill, decodes = index % 7 * 16, 1 + index % 5
    took_s = time.step_s(prefill, decodes)
    return StepRecord(index, float(index), index + took_s, prefill, decodes, (), 0)


def taught(
    time: StepTime, ends: int, *, found: int, output: int, into: AdmissionBenefit | None = None
) -> AdmissionBenefit:
    """So many generations, with a few steps each."""
    worth = into or AdmissionBenefit()
    for index in range(3 * ends):
        worth.note_step(step(index, time))
    for _ in range(ends):
        worth.note_end(found, output)
    return worth


def test_it_is_worth_it_where_contexts_are_dear() -> None:
    """50 tokens again take 10 ms, beside ten steps of 80 ms, on the one, 100 ms on the other."""
    assert not taught(CHEAP_PROMPTS, MIN_SAMPLES, found=50, output=10).pays
    assert taught(DEAR_PROMPTS, MIN_SAMPLES, found=50, output=10).pays


def test_until_enough_is_known_it_is_taken_to_be() -> None:
    worth = taught(CHEAP_PROMPTS, MIN_SAMPLES - 1, found=50, output=10)
    assert worth.pays
    assert worth.note_end(50, 10)
    assert not worth.pays
    unknown = (
        AdmissionBenefit()
    )  # generations without steps: of another engine, or its steps are not told
    for _ in range(10 * MIN_SAMPLES):
        assert not unknown.note_end(1, 100)
    assert unknown.pays


def test_programs_of_another_kind_change_the_answer_once() -> None:
    worth = taught(CHEAP_PROMPTS, 2 * MIN_SAMPLES, found=50, output=10)
    changes = [worth.note_end(4000, 10) for _ in range(10 * MIN_SAMPLES)]
    assert worth.pays
    assert sum(changes) == 1


@settings(deadline=None, derandomize=True)
@given(prefill_s=st.floats(1e-5, 1e-2), found=st.integers(16, 4000), output=st.integers(1, 400))
def test_the_answer_is_that_of_the_ratio(prefill_s: float, found: int, output: int) -> None:
    time = StepTime(base_s=8e-3, prefill_s=prefill_s, decode_s=1e-3, kv_s=0.0)
    worth = taught(time, MIN_SAMPLES, found=found, output=output)
    ratio = found * prefill_s / (output * time.base_s)
    if ratio > 1.05 * LOW:
        assert worth.pays
    if ratio < 0.95 * LOW:
        assert not worth.pays
    taught(time, 10 * MIN_SAMPLES, found=2 * found, output=output, into=worth)
    if 2 * ratio > 1.2 * HIGH:
        assert worth.pays


def test_a_gate_that_is_not_worth_it_holds_nobody(world: Make, job: Any) -> None:
    jobs = [job(at_s, (5.0,), 700, "large") for at_s in (1.0, 1.1, 1.2)]
    one = world(1000, jobs)
    taught(CHEAP_PROMPTS, MIN_SAMPLES, found=50, output=10, into=one.state.admission.benefit)
    one.run(jobs)
    assert [done.began_at_s for done in jobs] == [1.0, 1.1, 1.2]
    assert {verdict.reason for _, verdict in one.admissions()} == {NO_BENEFIT}
    again = [job(at_s, (5.0,), 700, "large") for at_s in (1.0, 1.1, 1.2)]
    held = world(1000, again)
    held.run(again)
    assert again[2].began_at_s > 5.0


def test_a_reservation_holds_nobody_back_either(world: Make, job: Any) -> None:
    """It is for who waits for room; once nobody has to, more urgent ones need not pass it."""
    jobs = [
        job(1.0, (900.0,), 700, "first"),
        job(2.0, (1.0,), 800, "reserved"),
        job(60.0, (2000.0,), 700, "urgent", priority=1),
    ]
    one = world(1000, jobs)

    def cheap_at_last(running: Any, decision: object, now_s: float) -> None:
        running.state.admission.benefit.pays = now_s < 60.0

    one.before = cheap_at_last
    one.run(jobs)
    assert [done.began_at_s for done in jobs] == [1.0, 60.0, 60.0]


def test_a_gate_closes_once_those_that_came_in_fit(world: Make, job: Any) -> None:
    """Who comes while they do not fit is let in too: it would have to wait for all of them."""
    jobs = [
        *[job(1.0, (20.0 + n,), 700, "large") for n in range(3)],
        job(10.0, (1.0,), 700, "large"),
        job(30.0, (9.0,), 700, "large"),
        job(31.0, (1.0,), 700, "large"),
    ]
    one = world(1250, jobs)

    def dear_at_last(running: Any, decision: object, now_s: float) -> None:
        running.state.admission.benefit.pays = now_s > 5.0

    one.state.admission.benefit.pays = False
    one.before = dear_at_last
    one.run(jobs)
    assert [done.began_at_s for done in jobs] == [1.0, 1.0, 1.0, 10.0, 30.0, 39.0]


def test_steps_of_several_engines_are_not_mixed() -> None:
    gate = AdmissionControl({"one": (1000, 0), "other": (1000, 0)}, 0.8)
    for index in range(200):
        gate.note_step(step(index, CHEAP_PROMPTS))
        gate.note_end(Ledger(prompt_tokens=100, cached_tokens=100, output_tokens=10), 0.0, 1.0, 0.0)
    assert gate.benefit.pays


def test_contexts_that_are_lost_are_as_dear_as_those_that_are_found() -> None:
    """Else a gate, once open, would hardly ever close: the cache finds less behind it."""
    found, lost = AdmissionControl({"": (1000, 0)}, 0.8), AdmissionControl({"": (1000, 0)}, 0.8)
    for index in range(MIN_SAMPLES):
        for gate in (found, lost):
            gate.note_step(step(index, DEAR_PROMPTS))
        found.note_end(
            Ledger(prompt_tokens=100, cached_tokens=100, output_tokens=10), 0.0, 1.0, 0.0
        )
        lost.note_end(Ledger(prompt_tokens=100, output_tokens=10), 100.0, 1.0, 0.0)
    assert found.benefit.pays
    assert lost.benefit.pays
    assert lost.benefit.ratio == found.benefit.ratio

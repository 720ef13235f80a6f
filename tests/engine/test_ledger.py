"""The account of each request adds up, with a clock that moves only when the test says."""

import itertools

import pytest

from agentrt.base.clock import FakeClock
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.protocol.backend import HoleFill
from agentrt.structured.backends.automaton import AutomatonConstraint

PROMPT = [(3 * at) % 250 for at in range(100)]


class TickingClock(FakeClock):
    """Every look costs a millisecond."""

    def now_s(self):
        self.advance(0.001)
        return super().now_s()


def total(ledger):
    return (
        ledger.queue_s
        + ledger.kv_reload_s
        + ledger.prefill_s
        + ledger.decode_s
        + ledger.constraint_s
    )


@pytest.mark.parametrize("settings", [{}, {"kv_pages": 12}, {"prefill_chunk_tokens": 7}])
def test_the_parts_are_the_whole(settings, build, engine):
    core = build(clock=TickingClock(), **settings)
    for number in range(4):
        core.submit(engine.request(number, PROMPT[number:], max_tokens=20))
    served = engine.drain(core)
    for end in served.ends.values():
        ledger = end.ledger
        assert total(ledger) == pytest.approx(ledger.finished_at_s - ledger.received_at_s)
        assert ledger.received_at_s <= ledger.admitted_at_s <= ledger.first_token_at_s
        assert ledger.first_token_at_s <= ledger.finished_at_s
        assert ledger.prefill_s > 0
        assert ledger.decode_s > 0
        assert ledger.output_tokens == len(served.ids(end.request_id))
        mine = [d.step for d in served.steps if d.step and end.request_id in d.step.requests]
        assert ledger.steps == len(mine)
        assert ledger.batch_size_sum == sum(len(step.requests) for step in mine)


def test_waiting_for_a_hole_is_not_counted(build, engine):
    clock = FakeClock()
    core = build(clock=clock)
    core.submit(engine.request(1, PROMPT[:50], complete=False, max_tokens=3))
    served = engine.drain(core)
    clock.advance(100.0)
    core.fill_hole(1, HoleFill(tuple(PROMPT[50:]), complete=True))
    engine.drain(core, served)
    ledger = served.ends[1].ledger
    assert ledger.completed_at_s > 100
    assert total(ledger) < 1
    assert ledger.received_at_s < 1


def test_what_is_computed_before_the_last_input_is_counted(build, engine):
    core = build()
    core.submit(engine.request(1, PROMPT[:50], complete=False, max_tokens=3))
    served = engine.drain(core)
    core.fill_hole(1, HoleFill(tuple(PROMPT[50:90]), complete=False))
    engine.drain(core, served)
    core.fill_hole(1, HoleFill(tuple(PROMPT[90:]), complete=True))
    core.submit(engine.request(2, PROMPT, max_tokens=3))
    engine.drain(core, served)
    filled, whole = served.ends[1].ledger, served.ends[2].ledger
    assert (filled.ahead_tokens, filled.late_tokens) == (80, 20), "whole pages, and the rest"
    assert whole.ahead_tokens == 0
    assert whole.late_tokens == len(PROMPT) - whole.cached_tokens


@pytest.mark.parametrize("shares", [True, False])
def test_prompts_are_shared_unless_that_is_off(shares, build, engine):
    core = build(share_prefixes=shares)
    served = engine.Served()
    for number in range(3):
        core.submit(engine.request(number, PROMPT, max_tokens=3))
        engine.drain(core, served)
    cached = [served.ends[number].ledger.cached_tokens for number in range(3)]
    assert cached == ([0, 99, 99] if shares else [0, 0, 0])
    assert len({tuple(served.ids(number)) for number in range(3)}) == 1


@pytest.mark.parametrize("way", ["known", "compiled", "filled", "filled while it runs"])
def test_opening_a_grammar_is_time_of_the_constraint(way, build, engine, monkeypatch):
    """Of each that opens it; the other one waits meanwhile. Nothing else takes time here."""
    clock = FakeClock()
    core = build(clock=clock, prefill_chunk_tokens=7)
    spec = ConstraintSpec("regex", "[a-z]{1,3}")
    start = AutomatonConstraint.start

    def opening(self):
        clock.advance(0.004)
        return start(self)

    def go_on(most_steps=None):
        for _ in itertools.repeat(None) if most_steps is None else range(most_steps):
            if not core.has_work():
                break
            if (done := core.step()) is not None:
                served.see(done)

    monkeypatch.setattr(AutomatonConstraint, "start", opening)
    served = engine.Served()
    if way != "compiled":
        core.prewarm((spec,), wait_s=60.0)
    known = 50 if way.startswith("filled") else len(PROMPT)
    for number in range(2):
        told = {"complete": known == len(PROMPT), "constraint": spec, "max_tokens": 1}
        core.submit(engine.request(number, [number, *PROMPT[:known]], **told))
    if known < len(PROMPT):
        go_on(3 if way == "filled while it runs" else None)
        for number in range(2):
            core.fill_hole(number, HoleFill(tuple(PROMPT[known:]), complete=True))
    go_on()
    assert clock.now_s() == pytest.approx(0.008)
    waited = 0.0
    for end in served.ends.values():
        ledger = end.ledger
        assert ledger.constraint_s == pytest.approx(0.004)
        assert min(ledger.queue_s, ledger.prefill_s) >= 0.0
        assert total(ledger) - 0.004 in (pytest.approx(0.0), pytest.approx(0.004))
        waited += ledger.queue_s + ledger.prefill_s
    assert waited > 0.0


def test_a_cancelled_request_has_its_account_too(build, engine):
    core = build(clock=TickingClock())
    core.submit(engine.request(1, PROMPT, max_tokens=20))
    engine.drain(core, most_steps=4)
    core.cancel(1, "test")
    ledger = engine.drain(core).ends[1].ledger
    assert total(ledger) == pytest.approx(ledger.finished_at_s - ledger.received_at_s)


def test_steps_are_recorded_in_order(build, engine):
    core = build(clock=TickingClock())
    for number in range(3):
        core.submit(engine.request(number, PROMPT[: 20 + number], max_tokens=5))
    steps = [done.step for done in engine.drain(core).steps if done.step]
    assert [step.index for step in steps] == list(range(len(steps)))
    for step, following in itertools.pairwise(steps):
        assert step.started_at_s < step.ended_at_s <= following.started_at_s

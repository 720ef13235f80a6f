"""A constraint that comes after its request: the prompt is computed before, no token is drawn."""

import json
import threading

import pytest

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.protocol.backend import HoleFill
from agentrt.protocol.step_output import StepRecord
from agentrt.structured import CompileCache, compile_constraint

PROMPT = [(3 * at) % 250 for at in range(100)]
OPEN = ConstraintSpec(
    "json", '{"type":"array","items":{"$ref":"#/$defs/a"},"maxItems":2,"minItems":1}', holes=("a",)
)
RECORDS = tuple(f'{{"s":"S{at}","v":{at}.5}}' for at in range(30))
FILLED = OPEN.filled({"a": RECORDS})
HOW = {"on_limit": "close", "max_tokens": 40, "temperature": 1.0, "seed": 3}


def steps(core, most=50):
    """The steps of a core until it has nothing to do."""
    found: list[StepRecord] = []
    while core.has_work() and len(found) < most:
        done = core.step()
        if done is not None and done.step is not None:
            found.append(done.step)
    return found


def records_in(served, number):
    return [json.dumps(one, separators=(",", ":")) for one in json.loads(served.text(number))]


def test_the_prompt_is_computed_while_its_options_are_pending(build, engine):
    """All its whole pages, and nothing is drawn; then the rest is less than a page."""
    core = build(page_tokens=16, step_tokens=64, prefill_chunk_tokens=32, jump_forward=False)
    core.submit(engine.request(1, PROMPT, complete=False, constraint=OPEN, **HOW))
    ahead = steps(core)
    assert sum(step.prefill_tokens for step in ahead) == 96
    assert len(ahead) == 3
    assert sum(step.decode_tokens for step in ahead) == 0
    assert not core.has_work(), "it is asleep until the options come"
    core.fill_hole(1, HoleFill((), True, FILLED))
    served = engine.drain(core)
    end = served.ends[1]
    assert end.reason == "stop" or end.closed_early
    assert set(records_in(served, 1)) <= set(RECORDS)
    assert sum(one.step.prefill_tokens for one in served.steps if one.step) == 4
    assert (end.ledger.prompt_tokens, end.ledger.recomputed_tokens) == (100, 0)


def test_it_answers_as_if_all_had_been_known(build, engine):
    core = build()
    core.submit(engine.request(1, PROMPT, constraint=FILLED, **HOW))
    plain = engine.drain(core)
    core = build()
    core.submit(engine.request(1, PROMPT[:50], complete=False, constraint=OPEN, **HOW))
    steps(core)
    core.fill_hole(1, HoleFill(tuple(PROMPT[50:]), False))
    steps(core)
    core.fill_hole(1, HoleFill((), True, FILLED))
    assert engine.drain(core).ids(1) == plain.ids(1)


def test_the_prompt_goes_on_while_the_grammar_compiles(build, engine):
    """The first masked token waits for the grammar, and no token of the prompt does."""
    core = build(page_tokens=16, step_tokens=64, prefill_chunk_tokens=32, jump_forward=False)
    go = threading.Event()

    def held(*args):
        assert go.wait(60)
        return compile_constraint(*args)

    core.executor.grammars.cache = CompileCache(compile_one=held)
    core.submit(engine.request(1, PROMPT, constraint=FILLED, **HOW))
    ahead: list[StepRecord] = []
    while sum(step.prefill_tokens for step in ahead) < 96:
        done = core.step()
        assert done is not None
        ahead.append(done.step)
    assert not core.scheduler.find(1).complete
    assert sum(step.decode_tokens for step in ahead) == 0
    go.set()
    served = engine.drain(core)
    assert set(records_in(served, 1)) <= set(RECORDS)
    assert sum(one.step.prefill_tokens for one in served.steps if one.step) == 4
    assert served.ends[1].ledger.recomputed_tokens == 0


def test_a_choice_gets_its_options_late(build, engine):
    core = build()
    core.submit(
        engine.request(
            1, PROMPT, complete=False, constraint=ConstraintSpec("choice", holes=("a",)), **HOW
        )
    )
    steps(core)
    choice = ConstraintSpec("choice", options=("buy", "sell"))
    core.fill_hole(1, HoleFill((), True, choice))
    assert engine.drain(core).text(1) in choice.options


def test_late_options_may_be_scored(build, engine):
    core = build()
    open_ = ConstraintSpec("choice", holes=("a",))
    request = engine.request(1, PROMPT, complete=False, constraint=open_)
    core.submit(engine.replace(request, scored=True))
    steps(core)
    core.fill_hole(1, HoleFill((), True, ConstraintSpec("choice", options=("buy", "sell"))))
    served = engine.drain(core)
    assert served.text(1) in ("buy", "sell")
    assert len(served.ends[1].scores) == 2


@pytest.mark.parametrize(
    ("fill", "reason"),
    [
        (HoleFill((), True), "hole a"),
        (HoleFill((), True, OPEN), "hole a"),
        (HoleFill((), True, OPEN.filled({"a": ()})), "no text fits"),
        (HoleFill((), True, ConstraintSpec("choice")), "needs texts to choose from"),
        (HoleFill((), True, ConstraintSpec("choice", options=("x" * 60,))), "max_tokens is 40"),
    ],
)
def test_a_fill_that_cannot_be_is_an_error_of_its_request(build, engine, fill, reason):
    core = build()
    core.submit(engine.request(1, PROMPT, complete=False, constraint=OPEN, **HOW))
    steps(core)
    core.submit(engine.request(2, PROMPT[1:], max_tokens=3))
    core.fill_hole(1, fill)
    served = engine.drain(core)
    assert served.ends[1].reason == "failed"
    assert reason in served.ends[1].error.message
    assert served.ends[2].reason in ("length", "stop"), "the other goes on"


def test_a_complete_request_has_no_hole(build, engine):
    core = build()
    core.submit(engine.request(1, PROMPT, constraint=OPEN, **HOW))
    assert "hole a" in engine.drain(core).ends[1].error.message


def test_a_request_is_filled_once(build, engine):
    core = build()
    core.submit(engine.request(1, PROMPT, complete=False, constraint=OPEN, **HOW))
    core.fill_hole(1, HoleFill((), True, FILLED))
    core.fill_hole(1, HoleFill((), True, FILLED))
    assert "after it was complete" in engine.drain(core).ends[1].error.message


def test_it_may_be_cancelled_at_any_point(build, engine):
    core = build()
    for number, fill in enumerate([None, HoleFill((), True, FILLED)]):
        core.submit(engine.request(number, PROMPT, complete=False, constraint=OPEN, **HOW))
        if fill is not None:
            core.fill_hole(number, fill)
        core.cancel(number, "enough")
    served = engine.drain(core)
    assert {end.reason for end in served.ends.values()} == {"cancelled"}
    assert core.allocator.pool.free_pages + core.allocator.tree.evictable_pages == 256

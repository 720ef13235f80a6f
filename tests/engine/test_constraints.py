"""Constraints in the loop: always valid, never repaired, forced tokens without own forwards."""

import json

import pytest

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import RequestId
from agentrt.engine.sequence import grammar_state
from agentrt.protocol.backend import SchedulingInfo
from agentrt.structured import compile_constraint

PROMPT = [(3 * at) % 250 for at in range(40)]
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 30},
        "scores": {"type": "array", "items": {"type": "integer"}, "maxItems": 5},
        "kind": {"enum": ["alpha", "beta"]},
    },
    "required": ["name", "scores", "kind"],
    "additionalProperties": False,
}
SPECS = {
    "json": ConstraintSpec("json", json.dumps(SCHEMA)),
    "regex": ConstraintSpec("regex", "[A-Z]{2,6}-[0-9]+"),
    "choice": ConstraintSpec("choice", options=("buy", "hold", "sell everything")),
    "grammar": ConstraintSpec("grammar", 'start: "(" start ")" | "x"'),
}


def replays(core, spec, ids, *, whole):
    """The emitted ids are accepted, as they are, by a matcher that has seen none of this."""
    state = compile_constraint(spec, core.codec.vocab, core.codec.call_frame).start()
    assert state.advance(ids) == len(ids)
    assert not whole or state.can_stop()


@pytest.mark.parametrize("kind", list(SPECS))
def test_outputs_are_valid_within_any_budget(kind, build, engine):
    core = build(max_running=32, kv_pages=500)
    spec = SPECS[kind]
    shortest = compile_constraint(spec, core.codec.vocab, core.codec.call_frame).min_tokens
    assert shortest is not None
    number = 0
    for extra in (0, 1, 5, 60):
        for seed in range(4):
            number += 1
            core.submit(
                engine.request(
                    number,
                    PROMPT[seed:],
                    constraint=spec,
                    on_limit="close",
                    max_tokens=shortest + extra,
                    temperature=1.0,
                    seed=seed,
                )
            )
    served = engine.drain(core)
    assert len(served.ends) == number
    for one, end in served.ends.items():
        assert end.error is None
        assert end.reason == ("length" if end.closed_early else "stop")
        replays(core, spec, served.ids(one), whole=True)
        if kind == "json":
            value = json.loads(served.text(one))
            assert list(value) == ["name", "scores", "kind"]
    if kind == "json":
        assert any(end.closed_early for end in served.ends.values())


def test_forced_tokens_take_no_forward_each(build, engine):
    core = build()
    core.submit(
        engine.request(
            1, PROMPT, constraint=SPECS["json"], max_tokens=400, seed=1, temperature=1.0, logprobs=1
        )
    )
    before = core.forwards
    served = engine.drain(core)
    ledger = served.ends[1].ledger
    assert ledger.forced_tokens > 20
    assert core.forwards - before <= ledger.output_tokens - ledger.forced_tokens + 2
    assert sum(delta.forced_tokens for delta in served.deltas[1]) == ledger.forced_tokens
    told = served.logprobs(1)
    assert [one.token_id for one in told] == served.ids(1)
    assert sum(one.forced for one in told) == ledger.forced_tokens


def test_a_limit_that_raises_cuts_and_says_so(build, engine):
    core = build()
    core.submit(engine.request(1, PROMPT, constraint=SPECS["json"], max_tokens=12))
    served = engine.drain(core)
    end = served.ends[1]
    assert (end.reason, end.closed_early) == ("length", False)
    assert len(served.ids(1)) == 12
    replays(core, SPECS["json"], served.ids(1), whole=False)


def test_a_budget_under_the_shortest_output_is_refused(build, engine):
    core = build()
    core.submit(engine.request(1, PROMPT, constraint=SPECS["json"], on_limit="close", max_tokens=5))
    end = engine.drain(core).ends[1]
    assert end.error.type == "ConstraintError"
    assert "needs at least" in end.error.message


def test_a_window_too_short_for_any_valid_output_is_an_overflow(build, engine):
    core = build(kv_pages=300)
    long = [at % 250 for at in range(2290)]
    core.submit(engine.request(1, long, constraint=SPECS["json"], on_limit="close"))
    error = engine.drain(core).ends[1].error
    assert error.type == "ContextOverflow"
    assert "shortest valid output" in error.message


def test_what_does_not_compile_fails_alone(build, engine):
    core = build()
    core.submit(engine.request(1, PROMPT, constraint=ConstraintSpec("grammar", "start: nowhere")))
    core.submit(engine.request(2, PROMPT, max_tokens=4))
    served = engine.drain(core)
    assert served.ends[1].error.type == "ConstraintError"
    assert served.ends[2].reason == "length"


def test_rows_without_a_constraint_are_not_masked(build, engine):
    core = build()
    core.submit(engine.request(1, PROMPT, max_tokens=15))
    free = engine.drain(core).ids(1)
    core.submit(engine.request(2, PROMPT, constraint=SPECS["json"], max_tokens=200))
    core.submit(engine.request(3, PROMPT, max_tokens=15))
    assert engine.drain(core).ids(3) == free


def test_preemption_keeps_the_grammar(build, engine):
    how = {"constraint": SPECS["json"], "on_limit": "close", "max_tokens": 70, "temperature": 1.0}
    roomy, tight = build(kv_pages=200), build(kv_pages=9, page_tokens=16)
    outputs = []
    for core in (roomy, tight):
        for number in range(4):
            core.submit(engine.request(number, PROMPT[number:], seed=number, **how))
        served = engine.drain(core)
        outputs.append([served.text(number) for number in range(4)])
        preemptions = sum(end.ledger.preemptions for end in served.ends.values())
    assert preemptions > 0
    assert outputs[0] == outputs[1]


def test_a_deadline_closes_the_output(build, engine):
    core = build()
    core.executor.sampler.mask_filler.row_budget_s = 60.0  # none is late on a busy machine
    how = {"constraint": SPECS["json"], "on_limit": "close", "temperature": 1.0, "seed": 3}
    core.submit(engine.request(0, PROMPT, max_tokens=40, **how))
    engine.drain(core)  # its grammar is compiled
    now_s = core.clock.now_s()
    late = {"max_tokens": 2000, "deadline_at_s": now_s + 0.012}
    core.submit(engine.request(1, PROMPT, **how, **late))
    core.submit(engine.request(2, PROMPT, on_limit="close", **late))
    served = engine.drain(core)
    for number in (1, 2):
        end = served.ends[number]
        assert (end.reason, end.closed_early) == ("length", True)
        assert end.ledger.finished_at_s <= now_s + 0.013
    replays(core, SPECS["json"], served.ids(1), whole=True)


def test_masks_filled_beside_the_forward_are_the_same(build, engine):
    outputs = []
    for worth_s in (1e9, -1.0):
        core = build()
        core.executor.sampler.mask_filler.thread_pays_s = worth_s
        for number in range(3):
            core.submit(
                engine.request(
                    number,
                    PROMPT[number:],
                    constraint=SPECS["json"] if number else None,
                    on_limit="close",
                    max_tokens=60,
                    temperature=1.0,
                    seed=number,
                )
            )
        served = engine.drain(core)
        outputs.append([served.ids(number) for number in range(3)])
    assert outputs[0] == outputs[1]


def test_a_grammar_that_breaks_on_the_way_ends_its_request_alone(build, engine, monkeypatch):
    core = build()
    core.submit(engine.request(1, PROMPT, constraint=SPECS["json"], max_tokens=80))
    core.submit(
        engine.request(2, PROMPT, constraint=SPECS["json"], on_limit="close", max_tokens=80)
    )
    core.submit(engine.request(3, PROMPT, max_tokens=12))
    served = engine.drain(core, most_steps=6)

    def broken(self):
        raise RuntimeError("parser lost")

    monkeypatch.setattr(grammar_state.GrammarState, "mask_state", property(broken))
    engine.drain(core, served)
    assert (served.ends[1].reason, served.ends[1].error.message) == ("failed", "parser lost")
    assert (served.ends[2].reason, served.ends[2].closed_early) == ("length", True)
    replays(core, SPECS["json"], served.ids(2), whole=True)
    assert served.ends[3].reason == "length"


def test_a_deadline_that_comes_later_closes_the_output_at_once(build, engine):
    """So does a cancel that keeps a valid value: to the engine it is a deadline that has come."""
    core = build()
    core.submit(
        engine.request(
            1, PROMPT, constraint=SPECS["json"], on_limit="close", max_tokens=2000, seed=3
        )
    )
    served = engine.drain(core, most_steps=4)
    core.update((SchedulingInfo(RequestId(1), demanded=True, deadline_at_s=core.clock.now_s()),))
    forwards = core.forwards
    engine.drain(core, served)
    assert core.forwards <= forwards + 1
    assert (served.ends[1].reason, served.ends[1].closed_early) == ("length", True)
    replays(core, SPECS["json"], served.ids(1), whole=True)

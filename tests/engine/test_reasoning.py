"""Thought before an answer: free, within its tokens, in the model's own frame; then the type."""

import json
from typing import Any

import pytest

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import RequestId
from agentrt.base.segments import ThinkFrame
from agentrt.protocol.backend import SchedulingInfo
from agentrt.structured import compile_constraint
from agentrt.structured.reasoning import Thinking

PROMPT = [(3 * at) % 250 for at in range(40)]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "n": {"type": "integer"}},
    "required": ["name", "n"],
    "additionalProperties": False,
}
SPECS: dict[str, Any] = {
    "json": ConstraintSpec("json", json.dumps(SCHEMA)),
    "regex": ConstraintSpec("regex", "[A-Z]{2,6}-[0-9]+"),
    "choice": ConstraintSpec("choice", options=("buy", "hold", "sell everything")),
    "free": None,
}


@pytest.fixture
def thinking(engine):
    def make(number, tokens, *, prompt=PROMPT, **more):
        more.setdefault("max_tokens", 90)
        made = engine.request(number, prompt, keep_special=True, **more)
        return engine.replace(made, thinking_tokens=tokens)

    return make


def cut(core, text):
    """Thought and answer, as the frame cuts them."""
    frame = core.codec.think_frame
    assert text.startswith(frame.opening)
    thought, marker, rest = text[len(frame.opening) :].partition(frame.marker)
    assert marker, text
    assert rest.startswith(frame.after)
    return thought, rest[len(frame.after) :]


def holds(core, spec, text):
    if spec is None:
        return True
    state = compile_constraint(spec, core.codec.vocab, core.codec.call_frame).start()
    table = {piece: at for at, piece in enumerate(core.codec.vocab.token_bytes) if piece}
    ids = [table[bytes([byte])] for byte in text.encode()]
    return state.advance(ids) == len(ids) and state.can_stop()


@pytest.mark.parametrize("jumps", [True, False])
@pytest.mark.parametrize("kind", list(SPECS))
def test_thought_ends_in_time_and_the_answer_holds(kind, jumps, build, engine, thinking):
    core = build(max_running=16, jump_forward=jumps)
    spec = SPECS[kind]
    frame_tokens = len(Thinking(core.codec.think_frame, core.codec.vocab, 0).shortest)
    numbers = range(1, 9)
    for number in numbers:
        budget = (0, 1, 7, 30)[number % 4]
        core.submit(
            thinking(
                number, budget, constraint=spec, on_limit="close", seed=number, temperature=1.0
            )
        )
    served = engine.drain(core)
    for number in numbers:
        end = served.ends[number]
        assert end.error is None
        thought, answer = cut(core, served.text(number))
        assert holds(core, spec, answer), answer
        budget = (0, 1, 7, 30)[number % 4]
        assert end.ledger.thinking_tokens <= budget + frame_tokens
        if not budget:
            assert not thought.strip()
        assert end.ledger.output_tokens <= 90


@pytest.mark.parametrize("kind", ["json", "choice"])
def test_jumps_change_no_token(kind, build, engine, thinking):
    texts = []
    for jumps in (True, False):
        core = build(jump_forward=jumps)
        core.submit(thinking(1, 20, constraint=SPECS[kind], on_limit="close"))
        served = engine.drain(core)
        texts.append((served.text(1), served.ids(1)))
    assert texts[0] == texts[1]


def test_the_frame_costs_no_forward(build, engine, thinking):
    core = build()
    before = core.forwards
    core.submit(thinking(1, 5, constraint=SPECS["choice"]))
    served = engine.drain(core)
    ledger = served.ends[1].ledger
    assert core.forwards - before <= ledger.output_tokens - ledger.forced_tokens + 2
    assert ledger.forced_tokens >= ledger.thinking_tokens - 5


def test_a_tight_limit_shortens_the_thought_not_the_answer(build, engine, thinking):
    """What the shortest answer needs is left untouched."""
    core = build(max_running=8)
    spec = SPECS["json"]
    compiled = compile_constraint(spec, core.codec.vocab, core.codec.call_frame)
    frame_tokens = len(Thinking(core.codec.think_frame, core.codec.vocab, 0).shortest)
    assert compiled.min_tokens is not None
    least = frame_tokens + compiled.min_tokens
    for number, extra in enumerate((0, 1, 5, 30), 1):
        core.submit(
            thinking(
                number,
                100,
                constraint=spec,
                on_limit="close",
                max_tokens=least + extra,
                temperature=1.0,
                seed=number,
            )
        )
    core.submit(thinking(9, 100, constraint=spec, on_limit="close", max_tokens=least - 1))
    served = engine.drain(core)
    for number in range(1, 5):
        _, answer = cut(core, served.text(number))
        assert holds(core, spec, answer)
    assert served.ends[9].error.type == "ConstraintError"
    assert f"at least {least} tokens" in served.ends[9].error.message


def test_a_window_too_short_for_thought_and_answer_is_an_overflow(build, engine, thinking):
    core = build(kv_pages=300)
    long = [at % 250 for at in range(2290)]
    core.submit(thinking(1, 10, prompt=long))
    core.submit(thinking(2, 10, prompt=long, constraint=SPECS["choice"]))
    ends = engine.drain(core).ends
    assert {ends[1].error.type, ends[2].error.type} == {"ContextOverflow"}


def test_steps_launched_ahead_think_the_same(build, engine, thinking):
    texts = []
    for overlap in ("off", "on"):
        core = build(overlap=overlap)
        for number, kind in enumerate(SPECS, 1):
            core.submit(thinking(number, 12, constraint=SPECS[kind], temperature=1.0, seed=number))
        served = engine.drain(core)
        texts.append([served.text(number) for number in range(1, 5)])
    assert texts[0] == texts[1]


def test_a_deadline_closes_thought_and_answer(build, engine, thinking):
    core = build()
    core.submit(thinking(1, 80, constraint=SPECS["json"], on_limit="close"))
    served = engine.drain(core, most_steps=9)
    assert served.deltas
    assert not served.ends
    core.update((SchedulingInfo(RequestId(1), True, deadline_at_s=0.0),))
    engine.drain(core, served)
    assert served.ends[1].closed_early
    _, answer = cut(core, served.text(1))
    assert holds(core, SPECS["json"], answer)


def test_stop_strings_are_for_the_answer(build, engine, thinking):
    core = build()
    core.submit(thinking(1, 40, temperature=1.0, seed=3))
    thought, answer = cut(core, engine.drain(core).text(1))
    assert len(thought) > 5
    core.submit(thinking(2, 40, temperature=1.0, seed=3, stop=(thought[2], answer[3:5])))
    served = engine.drain(core)
    again, short = cut(core, served.text(2))
    assert again == thought
    assert answer.startswith(short)
    assert served.ends[2].stopped_by


def test_no_end_token_ends_a_thought(build, engine, thinking):
    core = build(max_running=8)
    for number in range(1, 9):
        core.submit(thinking(number, 60, temperature=9.0, seed=number))
    served = engine.drain(core)
    for number in range(1, 9):
        cut(core, served.text(number))
        assert not set(served.ids(number)) & set(core.codec.vocab.eos_ids)


def test_a_marker_may_be_an_end_token(build, engine, thinking):
    """As in templates whose thought is a message of its own."""
    core = build(max_running=8)
    core.codec.think_frame = ThinkFrame(
        "<|call|>",
        "<|end|>",
        "<|end|><|assistant|>",
        False,
        ("<|call|>", "<|end|>", "<|assistant|>"),
    )
    for number in range(1, 9):
        core.submit(thinking(number, 60, constraint=SPECS["choice"], temperature=9.0, seed=number))
    served = engine.drain(core)
    lengths = set()
    for number in range(1, 9):
        thought, answer = cut(core, served.text(number))
        assert answer in SPECS["choice"].options
        lengths.add(len(thought))
    assert min(lengths) < 30, "some model ends its thought by itself"


def test_preempted_thought_goes_on_as_it_was(build, engine, thinking):
    core = build(kv_pages=256)
    for number in range(1, 5):
        core.submit(thinking(number, 30, constraint=SPECS["json"], prompt=PROMPT[number:]))
    alone = engine.drain(core)
    core = build(kv_pages=14)
    for number in range(1, 5):
        core.submit(thinking(number, 30, constraint=SPECS["json"], prompt=PROMPT[number:]))
    tight = engine.drain(core)
    assert sum(tight.ends[number].ledger.preemptions for number in range(1, 5)) > 0
    assert [tight.text(n) for n in range(1, 5)] == [alone.text(n) for n in range(1, 5)]

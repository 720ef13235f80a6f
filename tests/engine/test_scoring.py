"""A choice that is scored: one forward, the model's own probabilities, and ids to go on from."""

import math

import pytest
import torch
import transformers

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import RequestId
from agentrt.engine.runner import scoring
from agentrt.protocol.backend import HoleFill, TokenPrompt

OPTIONS = ("yes", "no", "a rather long option", "yes, please")
SPEC = ConstraintSpec("choice", options=OPTIONS)
PROMPT = [(7 * at) % 250 for at in range(75)]


@pytest.fixture
def scored(engine):
    def make(number, prompt=PROMPT, spec=SPEC, **more):
        return engine.replace(engine.request(number, prompt, constraint=spec, **more), scored=True)

    return make


@pytest.fixture
def truth(model_dir):
    """What transformers says, option by option, each in a forward of its own."""

    def find(kind, prompt, options, eos=257):
        model = transformers.AutoModelForCausalLM.from_pretrained(
            model_dir(kind), dtype=torch.float32
        )
        found = []
        for option in options:
            ids = [*option, eos]
            with torch.inference_mode():
                logits = model(torch.tensor([[*prompt, *option]])).logits[0]
            told = torch.log_softmax(logits[len(prompt) - 1 :], -1)
            found.append(sum(float(told[at, token]) for at, token in enumerate(ids)))
        return found

    return find


def spelled(core, options=OPTIONS):
    # The tiny tokenizer has a token a byte.
    table = {text: at for at, text in enumerate(core.codec.vocab.token_bytes) if text}
    return [[table[bytes([byte])] for byte in option.encode()] for option in options]


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gemma2"])
def test_scores_are_those_of_transformers(kind, build, engine, scored, truth):
    core = build(kind)
    core.submit(scored(1))
    end = engine.drain(core).ends[1]
    assert end.error is None
    expected = truth(kind, PROMPT, spelled(core))
    assert [one.logprob for one in end.scores] == pytest.approx(expected, abs=2e-3)
    assert [one.tokens for one in end.scores] == [len(option) + 1 for option in OPTIONS]


def test_all_options_take_one_forward_behind_the_prompt(build, engine, scored):
    core = build(prefill_chunk_tokens=16)
    before = core.forwards
    core.submit(scored(1))
    served = engine.drain(core)
    ledger = served.ends[1].ledger
    assert ledger.prefill_chunks == 5  # of 16 tokens; the last one goes with the options
    assert core.forwards - before == 5 + 1
    core.submit(scored(2))  # the prompt is known now
    again = engine.drain(core, served)
    assert core.forwards - before == 5 + 1 + 1
    assert again.ends[2].ledger.cached_tokens == len(PROMPT) - 1
    assert [one.logprob for one in again.ends[2].scores] == pytest.approx(
        [one.logprob for one in again.ends[1].scores], abs=1e-4
    )


def test_the_likeliest_is_written_and_can_be_gone_on_from(build, engine, scored):
    core = build()
    core.submit(scored(1))
    served = engine.drain(core)
    told = [one.logprob for one in served.ends[1].scores]
    best = max(range(len(told)), key=told.__getitem__)
    assert served.text(1) == OPTIONS[best]
    assert served.ids(1) == spelled(core)[best]
    assert served.ends[1].reason == "stop"
    assert served.ends[1].ledger.output_tokens == len(OPTIONS[best])


def test_at_a_temperature_options_are_drawn_by_their_probabilities(build, engine, scored):
    core = build(max_running=8)
    spec = ConstraintSpec("choice", options=("a", "b", "c"))
    for number in range(300):
        core.submit(scored(number, spec=spec, temperature=3.0, seed=number))
    served = engine.drain(core)
    told = [one.logprob / 3.0 for one in served.ends[0].scores]
    weights = [math.exp(one) / sum(map(math.exp, told)) for one in told]
    texts = [served.text(number) for number in range(300)]
    for option, weight in zip("abc", weights, strict=True):
        assert texts.count(option) / 300 == pytest.approx(weight, abs=0.09)
    core.submit(scored(1000, spec=spec, temperature=3.0, seed=7))
    assert engine.drain(core).text(1000) == texts[7]


def test_others_go_on_beside_it_and_pages_come_back(build, engine, scored):
    core = build(max_running=4)
    free = core.allocator.available_pages
    alone = engine.request(1, PROMPT[:30], max_tokens=20)
    core.submit(alone)
    text = engine.drain(core).text(1)
    for number in range(2, 8):
        core.submit(scored(number, PROMPT[number:]))
    core.submit(engine.request(9, PROMPT[:30], max_tokens=20))
    served = engine.drain(core)
    assert served.text(9) == text
    assert all(len(served.ends[number].scores) == len(OPTIONS) for number in range(2, 8))
    assert core.allocator.available_pages == free
    assert core.allocator.free_slots == 4


def test_more_options_than_fit_take_more_forwards(build, engine, scored, monkeypatch):
    core = build()
    core.submit(scored(1))
    told = engine.drain(core).ends[1].scores
    monkeypatch.setattr(scoring, "MAX_LOGITS", 24)
    before = core.forwards
    core.submit(scored(2))
    again = engine.drain(core).ends[2].scores
    assert core.forwards - before == 3
    assert [one.logprob for one in again] == pytest.approx([one.logprob for one in told], abs=1e-4)


def test_a_prompt_with_a_hole_is_scored_when_it_is_whole(build, engine, scored):
    core = build()
    core.submit(scored(1))
    whole = engine.drain(core).ends[1].scores
    core = build()
    core.submit(engine.replace(scored(1), prompt=TokenPrompt(tuple(PROMPT[:50]), False)))
    served = engine.drain(core)
    assert not served.ends
    core.fill_hole(RequestId(1), HoleFill(tuple(PROMPT[50:]), True))
    told = engine.drain(core, served).ends[1].scores
    assert [one.logprob for one in told] == pytest.approx([one.logprob for one in whole], abs=1e-4)


def test_steps_launched_ahead_score_the_same(build, engine, scored):
    told = []
    for overlap in ("off", "on"):
        core = build(overlap=overlap)
        core.submit(engine.request(9, PROMPT[:30], max_tokens=30))
        for number in range(1, 4):
            core.submit(scored(number, PROMPT[number:]))
        served = engine.drain(core)
        scores = [served.ends[number].scores for number in range(1, 4)]
        told.append(([one.logprob for some in scores for one in some], served.text(9)))
    assert told[0][0] == pytest.approx(told[1][0], abs=1e-4)
    assert told[0][1] == told[1][1]


def test_what_cannot_be_scored_is_refused(build, engine, scored):
    core = build()
    core.submit(scored(1, spec=ConstraintSpec("regex", "a+")))
    core.submit(scored(2, max_tokens=3))
    core.submit(scored(3, [at % 250 for at in range(2290)]))
    ends = engine.drain(core).ends
    assert ends[1].error.type == "RequestRejected"
    assert (ends[2].error.type, "max_tokens=20" in ends[2].error.hint) == ("ConstraintError", True)
    assert ends[3].error.type == "ContextOverflow"


def test_options_that_never_fit_the_memory_are_refused(build, engine, scored):
    core = build(kv_pages=5)
    core.submit(scored(1))
    core.submit(scored(2, spec=ConstraintSpec("choice", options=("a", "b"))))
    ends = engine.drain(core, most_steps=200).ends
    assert ends[1].error.type == "OutOfPages"
    assert len(ends[2].scores) == 2


def test_pages_that_others_hold_are_waited_for(build, engine, scored):
    core = build(kv_pages=9)
    core.submit(engine.request(1, PROMPT[:40], max_tokens=40))
    core.submit(scored(2))
    served = engine.drain(core, most_steps=500)
    assert len(served.ends[2].scores) == len(OPTIONS)
    assert served.ends[1].error is None


def test_cancelled_before_it_was_scored(build, engine, scored):
    core = build(prefill_chunk_tokens=16)
    core.submit(scored(1))
    core.step()
    core.cancel(RequestId(1), "changed my mind")
    assert engine.drain(core).ends[1].reason == "cancelled"
    assert not core.has_work()

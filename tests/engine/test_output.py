"""What comes out: text, seeds, stop strings, log-probabilities, penalties, in a real engine."""

import pytest
import torch
import transformers

from agentrt.prompt import Codec

PROMPT = [(11 * at) % 250 for at in range(60)]


def test_a_seed_gives_the_same_tokens_whatever_else_runs(build, engine):
    how = {"max_tokens": 20, "temperature": 1.0, "top_p": 0.9, "seed": 42}
    alone = build()
    alone.submit(engine.request(1, PROMPT, **how))
    expected = engine.drain(alone).ids(1)
    crowd = build(prefill_chunk_tokens=16, page_tokens=4, kv_pages=60)
    for number in range(2, 7):
        other = {**how, "seed": number, "temperature": 0.3 * number}
        crowd.submit(engine.request(number, PROMPT[number:], **other))
    engine.drain(crowd, most_steps=4)
    crowd.submit(engine.request(1, PROMPT, **how))
    served = engine.drain(crowd)
    assert served.ids(1) == expected
    crowd.submit(engine.request(8, PROMPT, **{**how, "seed": 43}))
    assert engine.drain(crowd).ids(8) != expected


def test_text_is_the_tokens_text(build, engine):
    core = build()
    core.submit(engine.request(1, PROMPT, max_tokens=40, temperature=1.0, seed=5))
    served = engine.drain(core)
    detokenizer = core.codec.detokenizer()
    whole = detokenizer.feed_ids(served.ids(1)) + detokenizer.flush()
    assert served.text(1) == whole
    assert whole


def test_a_stop_string_ends_the_output_and_is_not_part_of_it(build, engine):
    core = build()
    how = {"max_tokens": 60, "temperature": 1.0, "seed": 5}
    core.submit(engine.request(1, PROMPT, **how))
    text = engine.drain(core).text(1)
    stop = text[20:23]
    at = text.index(stop)
    core.submit(engine.request(2, PROMPT, stop=(stop, "never there"), **how))
    served = engine.drain(core)
    end = served.ends[2]
    assert (end.reason, end.stopped_by) == ("stop", stop)
    assert served.text(2) == text[:at]
    assert len(served.ids(2)) < 60


@pytest.mark.parametrize("kind", ["llama", "gemma2"])
def test_logprobs_equal_the_reference(kind, build, engine, model_dir):
    core = build(kind, prefill_chunk_tokens=16)
    core.submit(engine.request(1, PROMPT, max_tokens=8, logprobs=3))
    served = engine.drain(core)
    ids, told = served.ids(1), served.logprobs(1)
    assert [one.token_id for one in told] == ids
    model = transformers.AutoModelForCausalLM.from_pretrained(
        model_dir(kind), dtype=torch.float32, attn_implementation="eager"
    )
    with torch.inference_mode():
        logits = model(torch.tensor([PROMPT + ids])).logits[0]
    expected = logits[len(PROMPT) - 1 : -1].log_softmax(-1)
    for at, one in enumerate(told):
        assert one.logprob == pytest.approx(float(expected[at, one.token_id]), abs=1e-4)
        best = expected[at].topk(3)
        assert [value for _, value in one.top] == pytest.approx(best.values.tolist(), abs=1e-4)
        assert one.top[0][0] == one.token_id


def test_penalties_change_the_output(build, engine):
    core = build()
    outputs = {}
    for number, how in enumerate(
        ({}, {"presence_penalty": 9.0}, {"frequency_penalty": 9.0}, {"repetition_penalty": 50.0})
    ):
        core.submit(engine.request(number, PROMPT[:9], max_tokens=40, **how))
        outputs[number] = engine.drain(core).ids(number)
    assert len(set(outputs[0])) < 40
    for number in (1, 2):
        assert len(set(outputs[number])) == len(outputs[number])
    assert not set(outputs[3]) & set(PROMPT[:9])


def test_an_end_token_ends_the_output_and_is_not_told(build, engine, model_dir, tmp_path):
    core = build()
    for seed in range(40):
        core.submit(engine.request(seed, PROMPT, max_tokens=60, temperature=1.5, seed=seed))
    served = engine.drain(core)
    eos = Codec.load(model_dir("llama")).vocab.eos_ids
    stopped = [n for n, end in served.ends.items() if end.reason == "stop"]
    assert stopped
    assert not any(token in eos for n in range(40) for token in served.ids(n))
    assert all(len(served.ids(n)) == 60 for n in range(40) if n not in stopped)


def test_special_tokens_are_shown_where_asked_for(build, engine):
    core = build()
    seen = {True: "", False: ""}
    for keep in (True, False):
        for seed in range(20):
            asked = engine.request(
                seed, PROMPT, max_tokens=60, temperature=1.5, seed=seed, keep_special=keep
            )
            core.submit(asked)
        served = engine.drain(core)
        seen[keep] = "".join(served.text(seed) for seed in range(20))
    assert "<|user|>" in seen[True]
    assert "<|user|>" not in seen[False]

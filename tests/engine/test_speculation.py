"""Speculative decoding: drafts of any text, right or wrong, change no token and lose no page."""

import gc
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import RequestId
from agentrt.engine.sequence.sequence import Sequence
from tests.engine.hash_machine import steered
from tests.engine.mixed_requests import (
    FREE,
    SMALL_STEPS,
    SPECS,
    STEM,
    compare_twice,
    holds_nothing,
    request,
    serve,
)


@settings(FREE, max_examples=20)
@given(
    requests=st.lists(request, min_size=2, max_size=6),
    tokens=st.sampled_from([1, 3, 9, "auto"]),
    overlap=st.sampled_from(["off", "on"]),
    kv_pages=st.sampled_from([24, 200]),
    slots=st.sampled_from([2, 8]),
    seed=st.integers(0, 99),
    wrong_share=st.sampled_from([0.0, 0.1, 0.5]),
)
def test_any_drafts_leave_every_token_as_it_was(
    requests, tokens, overlap, kv_pages, slots, seed, wrong_share, tokenizer_dir, engine
):
    """The site's earlier outputs are these ones, right for a while and then wrong."""
    how = {**SMALL_STEPS, "kv_pages": kv_pages, "max_running": slots}
    plain = engine.hash_core(tokenizer_dir, **how)
    expected = serve(plain, engine, requests)
    core = engine.hash_core(tokenizer_dir, overlap=overlap, speculate_tokens=tokens, **how)
    random = Random(seed)
    for at in range(len(requests)):
        text = [
            token if random.random() > wrong_share else random.randrange(250)
            for token in expected.ids(at)
        ]
        earlier = engine.request(900 + at, STEM, max_tokens=len(text) + 2)
        core.submit(engine.replace(earlier, output_ids=tuple(text)))
    engine.drain(core)
    compare_twice(core, engine, requests, expected)
    plain.close()
    core.close()


@pytest.mark.parametrize("overlap", ["off", "on"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_outputs_of_a_call_site_are_drafted(overlap, temperature, tokenizer_dir, engine):
    """The same requests again take a few steps each; other tenants and sites gain nothing."""
    core = engine.hash_core(tokenizer_dir, speculate_tokens=7, overlap=overlap, eos_bias=-9.0)

    def steps(number, **changed):
        request = engine.request(number, STEM, max_tokens=60, temperature=temperature, seed=5)
        core.submit(engine.replace(request, **changed))
        served = engine.drain(core)
        ledger = served.ends[number].ledger
        return served.ids(number), ledger.steps, {one.source: one for one in ledger.drafts}

    ids, alone, _ = steps(0)
    assert alone >= 50
    assert steps(1, site="other")[:2] == (ids, alone)
    assert steps(2, cache_salt="tenant")[:2] == (ids, alone)
    again, few, drafts = steps(3)
    assert again == ids
    assert few <= 12
    assert drafts["site"].accepted_tokens >= 45
    assert drafts["site"].rejected_tokens <= 7


def test_a_sequence_that_is_cancelled_in_flight_is_forgotten(tokenizer_dir, engine):
    """No draft keeps it, though its next step was launched ahead."""
    core = engine.hash_core(tokenizer_dir, speculate_tokens=4, overlap="on", eos_bias=-9.0)
    request = engine.replace(engine.request(0, STEM, max_tokens=60), site="cancelled in flight")
    core.submit(request)
    for _ in range(6):
        core.step()
    core.cancel(RequestId(0), "test")
    core.submit(engine.request(1, STEM[:9], max_tokens=3))
    engine.drain(core)
    gc.collect()
    kept = [one for one in gc.get_objects() if type(one) is Sequence and one.request == request]
    assert not kept
    core.close()


def test_branches_draft_for_each_other(tokenizer_dir, engine):
    """An output follows a sibling that is ahead of it."""
    core = engine.hash_core(tokenizer_dir, speculate_tokens=7, eos_bias=-9.0)
    served = engine.Served()
    core.submit(engine.request(0, STEM, max_tokens=60))
    engine.drain(core, served, most_steps=30)
    core.submit(engine.request(1, STEM, max_tokens=60))
    engine.drain(core, served)
    assert served.ids(0) == served.ids(1)
    drafts = {one.source: one.accepted_tokens for one in served.ends[1].ledger.drafts}
    assert drafts["sibling"] >= 20
    assert served.ends[1].ledger.steps <= 30


def test_a_copied_prompt_is_drafted(tokenizer_dir, engine):
    text = [*STEM, *range(180, 220)]
    core = engine.hash_core(
        tokenizer_dir,
        speculate_tokens=7,
        runner=steered(engine.hash_machine, lambda at: text[(at + 1) % len(text)]),
    )
    core.submit(engine.request(0, text, max_tokens=80))
    served = engine.drain(core)
    assert served.ids(0) == text[:80]
    (drafts,) = served.ends[0].ledger.drafts
    assert drafts.source == "prompt"
    assert drafts.accepted_tokens >= 60
    assert served.ends[0].ledger.steps <= 20
    extra_rows = sum(done.step.extra_rows for done in served.steps if done.step)
    assert extra_rows == drafts.accepted_tokens + drafts.rejected_tokens


@pytest.mark.parametrize("kind", ["llama"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_model_says_the_same_behind_drafts(kind, temperature, build, engine):
    """Rows of several tokens compute what rows of one do, over chunks, prefix hits and grammars."""
    spec = ConstraintSpec("json", '{"type":"array","items":{"type":"integer"},"maxItems":9}')
    told, steps = [], []
    for tokens in ("off", 5):
        core = build(
            kind, page_tokens=8, prefill_chunk_tokens=16, dtype="float32", speculate_tokens=tokens
        )
        for turn in range(3):
            for number in range(4):
                core.submit(
                    engine.request(
                        10 * turn + number,
                        [*STEM[: 40 + number // 2], 7],
                        max_tokens=40,
                        temperature=temperature,
                        seed=number,
                        constraint=spec if number % 2 else None,
                        on_limit="close" if number % 2 else "raise",
                    )
                )
            served = engine.drain(core)
            told.append([served.ids(10 * turn + number) for number in range(4)])
            steps.append(sum(end.ledger.steps for end in served.ends.values()))
        holds_nothing(core)
    assert told[:3] == told[3:]
    assert steps[5] < 0.6 * steps[2]


@pytest.mark.parametrize("constraint", [None, SPECS[4]])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_an_output_goes_on_in_another_engine(constraint, temperature, tokenizer_dir, engine):
    """What an engine that was killed had told is kept; drafts there and here change nothing."""
    how = {"max_tokens": 40, "temperature": temperature, "seed": 3, "constraint": constraint}
    plain = engine.hash_core(tokenizer_dir, eos_bias=-2.0)
    plain.submit(engine.request(0, STEM, **how))
    ids = engine.drain(plain).ids(0)
    for killed_at in (1, 2, 5):
        told: list[int] = []
        for _ in range(2):  # the second engine ends the output
            core = engine.hash_core(tokenizer_dir, eos_bias=-2.0, speculate_tokens=4)
            core.submit(engine.request(1, STEM, **how))
            engine.drain(core)  # an earlier output of the site
            rest = engine.request(2, STEM, **how)
            core.submit(engine.replace(rest, output_ids=tuple(told)))
            told += engine.drain(core, most_steps=killed_at if not told else 100).ids(2)
        assert told == ids


def test_captured_steps_compute_drafts_too(build, engine):
    """Each row with a draft behind it is a slice of its own in a captured graph."""
    from tests.engine.test_cuda_graphs import Tape

    told = []
    for captures in (False, True):
        core = build("llama", kernels="reference", speculate_tokens=5, max_running=8)
        if captures:
            core.executor.runner.capture_graphs(Tape(), 8)
        for number in range(2):
            core.submit(engine.request(number, STEM, max_tokens=30, temperature=0.8, seed=1))
            told.append(engine.drain(core).ids(number))
        graphs = core.executor.runner.graphs
        if captures:
            wide = [one for (tier, _), (_, one) in graphs.captured.items() if tier.sequences > 2]
            assert any(one.replays for one in wide)
    assert told[0] == told[1] == told[2] == told[3]

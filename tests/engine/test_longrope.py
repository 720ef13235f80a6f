"""Longrope: each sequence has the angles of its own length, as in `generate()`."""

import random

import pytest

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import RequestId
from agentrt.protocol.backend import HoleFill
from tests.engine.transformers_said import EPSILON, said

THRESHOLD, MOST, NEW_TOKENS = 40, 192, 24
ROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0, 1.2, 1.5, 2.0],
    "long_factor": [3.0, 5.0, 9.0, 16.0],
}
CACHED, CHUNK = 44, 9


def drawn(count, seed):
    source = random.Random(seed)
    return [source.randrange(256) for _ in range(count)]


SHORT, CROSSING, LONG = drawn(10, 1), drawn(THRESHOLD - 4, 2), drawn(110, 3)
TOGETHER = [SHORT, CROSSING, LONG, drawn(THRESHOLD, 4), drawn(THRESHOLD + 1, 5)]
AFTERWARDS = [
    LONG[:50] + drawn(4, 6),  # finds the pages of a long one
    LONG[:30] + drawn(4, 7),  # must not: it is short, and crosses
    CROSSING[:20] + drawn(40, 8),  # long from its beginning, where the other one crossed
    SHORT + drawn(3, 9),
]


@pytest.fixture
def path(engine, tmp_path):
    sizes = {"max_position_embeddings": MOST, "original_max_position_embeddings": THRESHOLD}
    engine.save_model("phi3", tmp_path, rope_parameters=ROPE, **sizes)
    return tmp_path


def submit(core, engine, prompts, first=0):
    for number, prompt in enumerate(prompts, first):
        core.submit(engine.request(number, prompt, max_tokens=NEW_TOKENS, ignore_eos=True))


def check(path, prompt, mine):
    """Equal to `generate()`, up to a tie or a special token."""
    theirs, gaps = said(path, prompt, NEW_TOKENS)
    for at, (one, other) in enumerate(zip(mine, theirs, strict=False)):
        if other >= 256 or (one != other and gaps[at] < EPSILON):
            return
        assert one == other, f"{len(prompt)} tokens, token {at}: {mine} is not {theirs}"


@pytest.mark.parametrize("overlap", ["off", "on"])
@pytest.mark.parametrize("chunk", [CHUNK, 128])
def test_sequences_of_every_length_equal_generate(chunk, overlap, path, engine):
    core = engine.core(path, page_tokens=4, prefill_chunk_tokens=chunk, overlap=overlap)
    model = core.executor.runner.model
    assert (model.report.path, model.report.context_tokens) == ("fast", MOST)
    submit(core, engine, TOGETHER)
    seen = engine.drain(core)
    submit(core, engine, AFTERWARDS, len(TOGETHER))
    engine.drain(core, seen)
    core.close()
    for number, prompt in enumerate(TOGETHER + AFTERWARDS):
        assert len(seen.ids(number)) == NEW_TOKENS
        check(path, prompt, seen.ids(number))
    found = [seen.ends[len(TOGETHER) + at].ledger.cached_tokens for at in range(len(AFTERWARDS))]
    assert found[0] >= CACHED
    assert found[1] < 4
    assert found[3] >= 8


def test_a_prompt_that_grows_past_the_threshold_is_computed_anew(path, engine):
    core = engine.core(path, page_tokens=4, prefill_chunk_tokens=CHUNK)
    prompt = drawn(THRESHOLD + 20, 12)
    core.submit(engine.request(0, prompt[:30], max_tokens=NEW_TOKENS, complete=False))
    for _ in range(6):
        core.step()
    core.fill_hole(RequestId(0), HoleFill(tuple(prompt[30:]), complete=True))
    seen = engine.drain(core)
    core.close()
    check(path, prompt, seen.ids(0))


def test_options_have_the_angles_of_their_prompt(path, engine):
    """They may be scored on either side of the threshold, and not across it."""
    core = engine.core(path, page_tokens=4)
    options = ConstraintSpec("choice", options=("a" * 12, "b"))
    for number, prompt_tokens in enumerate((10, THRESHOLD - 4, THRESHOLD + 1)):
        asked = engine.request(number, drawn(prompt_tokens, number), constraint=options)
        core.submit(engine.replace(asked, scored=True))
    seen = engine.drain(core)
    core.close()
    errors = [seen.ends[number].error for number in range(3)]
    assert [error and error.type for error in errors] == [None, "ContextOverflow", None]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_drafts_do_not_cross_the_threshold(temperature, path, engine):
    """Tokens behind it have other angles. The second output is drafted after the first."""
    told = []
    how = {"max_tokens": NEW_TOKENS, "ignore_eos": True, "temperature": temperature, "seed": 3}
    for tokens in ("off", 7):
        core = engine.core(path, page_tokens=4, dtype="float32", speculate_tokens=tokens)
        for number in range(2):
            core.submit(engine.request(number, CROSSING, **how))
            seen = engine.drain(core)
            told.append(seen.ids(number))
        core.close()
    assert told == told[:1] * 4
    drafts = {one.source: one.accepted_tokens for one in seen.ends[1].ledger.drafts}
    assert drafts["site"] >= 12

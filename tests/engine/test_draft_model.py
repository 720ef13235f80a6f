"""Draft models change no token, and compute the KV of all that they share with the target."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import RequestId
from tests.engine.hash_machine import VOCABULARY, HashMachine
from tests.engine.mixed_requests import (
    FREE,
    SMALL_STEPS,
    STEM,
    compare,
    compare_twice,
    holds_nothing,
    request,
    serve,
)


class Mistaken(HashMachine):
    """A draft model with other logits behind some tokens."""

    def forward(self, parts):
        logits = super().forward(parts)
        row = 0
        for part in parts:
            if part.wants_logits:
                if part.token_ids[-1] % 3 == 0:
                    logits[row] = logits[row].roll(1)
                row += 1
        return logits


class Broken(HashMachine):
    """A draft model whose logits are sometimes no numbers."""

    def forward(self, parts):
        logits = super().forward(parts)
        logits[::2] = torch.nan
        return logits


def drafts_of(served: Any) -> tuple[Counter[str], Counter[str]]:
    accepted, rejected = Counter[str](), Counter[str]()
    for end in served.ends.values():
        for one in end.ledger.drafts:
            accepted[one.source] += one.accepted_tokens
            rejected[one.source] += one.rejected_tokens
    return accepted, rejected


@settings(FREE, max_examples=15)
@given(
    requests=st.lists(request, min_size=2, max_size=6),
    tokens=st.sampled_from([1, 4, "auto"]),
    overlap=st.sampled_from(["off", "on"]),
    kv_pages=st.sampled_from([24, 200]),
    slots=st.sampled_from([2, 8]),
    model=st.sampled_from([HashMachine, Mistaken, Broken]),
)
def test_no_draft_model_changes_a_token(
    requests, tokens, overlap, kv_pages, slots, model, tokenizer_dir, engine
):
    """An equal model is right about all that it drafts, whatever happens to the pages."""
    how = {**SMALL_STEPS, "kv_pages": kv_pages, "max_running": slots}
    plain = engine.hash_core(tokenizer_dir, **how)
    expected = serve(plain, engine, requests)
    core = engine.hash_core(
        tokenizer_dir, overlap=overlap, speculate_tokens=tokens, draft_runner=model, **how
    )
    for number, found in compare_twice(core, engine, requests, expected).items():
        for at, one in enumerate(requests):
            if model is HashMachine and not one["stop"] and one["on_limit"] != "close":
                drafts = [
                    draft
                    for copy in range(2)
                    for draft in found.ends[number + 2 * at + copy].ledger.drafts
                ]
                assert not any(d.rejected_tokens for d in drafts if d.source == "model")
    plain.close()
    core.close()


class Watched(Mistaken):
    """A draft model of which each forward is checked: what it reads is of the sequence's tokens."""

    core: Any = None

    def forward(self, parts):
        sequences = {one.slot: one for one in self.core.scheduler.running.values()}
        keys = self.kv.memory[:, 0, 0, :, 0, 0].numpy()
        for part in parts:
            tokens = sequences[part.slot].tokens[: part.first_position]
            pages = self.tables.host_table[part.slot]
            assert keys[pages].reshape(-1)[: len(tokens)].astype(int).tolist() == tokens
        return super().forward(parts)


@settings(FREE, max_examples=15)
@given(
    requests=st.lists(request, min_size=2, max_size=5),
    overlap=st.sampled_from(["off", "on"]),
    kv_pages=st.sampled_from([24, 200]),
    right_tokens=st.integers(1, 12),
)
def test_the_model_reads_what_its_sequence_holds(
    requests, overlap, kv_pages, right_tokens, tokenizer_dir, engine
):
    """Also where drafts of its own were wrong, and those of an earlier output came between."""

    class Here(Watched):
        pass

    core = engine.hash_core(
        tokenizer_dir,
        overlap=overlap,
        speculate_tokens=6,
        draft_runner=Here,
        kv_pages=kv_pages,
        page_tokens=4,
        prefill_chunk_tokens=16,
        step_tokens=40,
        max_running=4,
        eos_bias=-0.5,
    )
    Here.core = core
    expected = serve(core, engine, requests)
    for at in range(len(requests)):
        text = expected.ids(at)
        for wrong in range(right_tokens, len(text), right_tokens):
            text[wrong] = (text[wrong] + 1) % 250
        earlier = engine.request(900 + at, STEM, max_tokens=len(text) + 2)
        core.submit(engine.replace(earlier, output_ids=tuple(text)))
    engine.drain(core)
    found = serve(core, engine, requests, copies=2, number=200)
    for at in range(len(requests)):
        compare(found, 200 + 2 * at, expected, at)
    holds_nothing(core)
    core.close()


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("overlap", ["off", "on"])
def test_an_equal_model_is_always_right(temperature, overlap, tokenizer_dir, engine):
    """Steps are as few as they can be: each gives the draft and one token more."""
    core = engine.hash_core(
        tokenizer_dir,
        overlap=overlap,
        speculate_tokens=4,
        draft_runner=HashMachine,
        eos_bias=-9.0,
        prefill_chunk_tokens=16,
        page_tokens=8,
    )
    for number in range(3):
        how = {"max_tokens": 51, "temperature": temperature, "seed": number}
        core.submit(engine.request(number, [*STEM[: 30 + number], 7], **how))
    served = engine.drain(core)
    accepted, rejected = drafts_of(served)
    assert accepted["model"] == 3 * 40
    assert rejected["model"] == 0
    for number in range(3):
        assert served.ends[number].ledger.steps <= 10 + 4  # of the output and of the prompt


def test_drafts_are_drawn_under_masks_and_penalties(tokenizer_dir, engine):
    core = engine.hash_core(
        tokenizer_dir, speculate_tokens=4, draft_runner=HashMachine, eos_bias=-9.0
    )
    spec = ConstraintSpec("regex", "[a-z]{60}")
    how = {"frequency_penalty": 0.7, "repetition_penalty": 1.2, "temperature": 1.0, "logprobs": 1}
    core.submit(engine.request(0, STEM, max_tokens=60, constraint=spec, **how))
    served = engine.drain(core)
    accepted, rejected = drafts_of(served)
    assert accepted["model"] >= 44
    assert rejected["model"] == 0


def test_a_preempted_sequence_drafts_what_it_would_have(tokenizer_dir, engine):
    """Its pages were given to others, and are computed anew by both models."""
    core = engine.hash_core(
        tokenizer_dir,
        speculate_tokens=4,
        draft_runner=HashMachine,
        eos_bias=-9.0,
        kv_pages=20,
        page_tokens=8,
        max_running=4,
    )
    for number in range(4):
        core.submit(engine.request(number, [number, *STEM[:20]], max_tokens=60, temperature=0.8))
    served = engine.drain(core)
    assert sum(end.ledger.preemptions for end in served.ends.values())
    accepted, rejected = drafts_of(served)
    assert accepted["model"] > 100
    assert rejected["model"] == 0
    holds_nothing(core)


def test_what_an_aborted_sequence_drafted_is_not_kept(tokenizer_dir, engine):
    core = engine.hash_core(
        tokenizer_dir, speculate_tokens=4, draft_runner=Mistaken, eos_bias=-9.0, page_tokens=8
    )
    core.submit(engine.request(0, STEM, max_tokens=60, temperature=0.8))
    engine.drain(core, most_steps=9)
    core.cancel(RequestId(0), "test")
    engine.drain(core)
    holds_nothing(core)
    core.submit(engine.request(1, STEM, max_tokens=60, temperature=0.8))
    drafted = engine.drain(core)
    core.close()
    plain = engine.hash_core(tokenizer_dir, eos_bias=-9.0, page_tokens=8)
    plain.submit(engine.request(1, STEM, max_tokens=60, temperature=0.8))
    assert engine.drain(plain).ids(1) == drafted.ids(1)


def test_the_source_that_is_likelier_drafts(tokenizer_dir, engine):
    """An earlier output is drafted while it agrees; where none does, the model drafts."""
    core = engine.hash_core(
        tokenizer_dir, speculate_tokens=4, draft_runner=HashMachine, eos_bias=-9.0
    )
    for number in range(2):
        core.submit(engine.request(number, STEM, max_tokens=60, temperature=0.8))
        served = engine.drain(core)
        accepted, _ = drafts_of(served)
        assert accepted["model"]
    assert accepted["site"] == 0  # it does not do better than a model that is always right
    worse = engine.hash_core(
        tokenizer_dir, speculate_tokens=4, draft_runner=Mistaken, eos_bias=-9.0
    )
    for number in range(4):
        worse.submit(engine.request(number, STEM, max_tokens=60, temperature=0.8))
        accepted, _ = drafts_of(engine.drain(worse))
    assert accepted["site"] > 40


def test_a_model_that_is_never_right_is_left_alone(tokenizer_dir, engine):
    """Its forwards take time: of later sequences few try it."""

    class Wrong(HashMachine):
        def forward(self, parts):
            clock.advance(0.002 * len(parts))
            return super().forward(parts).roll(1, dims=1)

    class Paced(HashMachine):
        def forward(self, parts):
            clock.advance(0.01)
            return super().forward(parts)

    core = engine.hash_core(
        tokenizer_dir,
        speculate_tokens="auto",
        runner=Paced,
        draft_runner=Wrong,
        eos_bias=-9.0,
    )
    clock = core.clock
    rng = np.random.default_rng(0)
    forwards = []
    for number in range(10):
        prompt = rng.integers(0, 250, 30).tolist()
        before = core.executor.draft_model.forwards
        core.submit(engine.request(number, prompt, max_tokens=40, temperature=0.8, seed=number))
        engine.drain(core)
        forwards.append(core.executor.draft_model.forwards - before)
    assert forwards[0] > 0
    assert sum(forwards[5:]) <= 0.2 * 5 * 40
    core.close()


@pytest.mark.parametrize("window_tokens", [50, 64])
def test_a_model_drafts_within_its_window(window_tokens, tokenizer_dir, engine):
    class Short(HashMachine):
        def __init__(self, *args):
            super().__init__(*args)
            self.model.window_tokens = window_tokens

        def forward(self, parts):
            for part in parts:
                assert part.first_position + len(part.token_ids) <= window_tokens
            return super().forward(parts)

    core = engine.hash_core(tokenizer_dir, speculate_tokens=4, draft_runner=Short, eos_bias=-9.0)
    core.submit(engine.request(0, STEM[:40], max_tokens=60))
    core.submit(engine.request(1, [9, *STEM[:59]], max_tokens=20))
    served = engine.drain(core)
    assert [len(served.ids(number)) for number in (0, 1)] == [60, 20]
    accepted, rejected = drafts_of(served)
    assert accepted["model"]
    assert rejected["model"] == 0


def test_logits_that_are_not_numbers_draft_nothing(tokenizer_dir, engine):
    core = engine.hash_core(tokenizer_dir, speculate_tokens=4, draft_runner=Broken, eos_bias=-9.0)
    core.submit(engine.request(0, STEM, max_tokens=20))
    served = engine.drain(core)
    assert len(served.ids(0)) == 20
    assert served.ends[0].error is None
    assert drafts_of(served)[0]["model"] == 0
    assert VOCABULARY == 262

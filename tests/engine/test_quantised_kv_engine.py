"""An engine with KV in codes: sharing, preemption, offload, forks and drafts change no token."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt_kernels.kv_codes import CODE_DTYPES
from tests.engine.hash_machine import CodedHashMachine, FloatHashMachine
from tests.engine.mixed_requests import FREE, SMALL_STEPS, compare_twice, request, serve

PROMPT = [(5 * at) % 250 for at in range(120)]
STEM = [(7 * at) % 251 for at in range(300)]


@settings(FREE, max_examples=25)
@given(
    requests=st.lists(request, min_size=2, max_size=6),
    tokens=st.sampled_from(["off", 3, "auto"]),
    overlap=st.sampled_from(["off", "on"]),
    kv_pages=st.sampled_from([24, 200]),
    host_kv_bytes=st.sampled_from([0, 4000]),
    slots=st.sampled_from([2, 8]),
    drafts=st.booleans(),
    machine=st.sampled_from([CodedHashMachine, FloatHashMachine]),
)
def test_codes_and_scales_go_together(
    requests,
    tokens,
    overlap,
    kv_pages,
    host_kv_bytes,
    slots,
    drafts,
    machine,
    tokenizer_dir,
    engine,
):
    """A page whose codes or scales were left behind would write other tokens."""
    how = {**SMALL_STEPS, "max_running": slots}
    plain = engine.hash_core(tokenizer_dir, kv_pages=200, **how)
    expected = serve(plain, engine, requests)
    core = engine.hash_core(
        tokenizer_dir,
        overlap=overlap,
        speculate_tokens=tokens,
        kv_pages=kv_pages,
        host_kv_bytes=host_kv_bytes,
        runner=machine,
        draft_runner=machine if drafts and tokens != "off" else None,
        **how,
    )
    compare_twice(core, engine, requests, expected)
    plain.close()
    core.close()


def written(core, engine, count=5, **sampling):
    for number in range(count):
        core.submit(engine.request(number, PROMPT[number : number + 30], max_tokens=40, **sampling))
    served = engine.drain(core)
    return served, [served.ids(number) for number in range(count)]


@pytest.fixture(params=CODE_DTYPES)
def kept(request):
    """A type of KV that is codes."""
    return request.param


@pytest.fixture
def alone(kept, build, engine):
    """Tokens of requests that share nothing, each in a batch of its own."""
    core = build("llama", kv_cache_dtype=kept, max_running=1, share_prefixes=False)
    return written(core, engine)[1]


def test_preemption_changes_no_token(alone, kept, build, engine):
    served, ids = written(build("llama", kv_cache_dtype=kept, kv_pages=11), engine)
    assert sum(end.ledger.preemptions for end in served.ends.values()) > 0
    assert ids == alone


def test_an_offloaded_prefix_comes_back_as_it_was(alone, kept, build, engine):
    core = build("llama", kv_cache_dtype=kept, kv_pages=11, host_kv_bytes=1 << 20)
    core.executor.offload.rates.prefill_tokens_s = 1.0  # a reload pays
    written(core, engine)
    served, ids = written(core, engine)
    assert any(end.ledger.cached_host_tokens for end in served.ends.values())
    assert ids == alone


@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_forks_share_what_they_begin_with(kernels, kept, build, engine):
    """Partial pages are copied, and a prefix long enough is read once for all."""
    apart, together = (
        build("llama", kv_cache_dtype=kept, kernels=kernels, **how)
        for how in ({"max_running": 1, "share_prefixes": False}, {"prefill_chunk_tokens": 24})
    )
    told = []
    for core in (apart, together):
        for branch in range(6):
            prompt = [*STEM, branch, 9]
            core.submit(engine.request(branch, prompt, max_tokens=20))
        served = engine.drain(core)
        told.append([served.ids(branch) for branch in range(6)])
    assert sum(end.ledger.cached_tokens for end in served.ends.values()) >= 5 * len(STEM)
    assert told[0] == told[1]


def test_drafts_change_no_token(alone, kept, build, model_dir, engine):
    """Rows behind rejected drafts are written again; a draft model has codes of its own."""
    core = build("llama", kv_cache_dtype=kept, speculate_tokens=4, draft_model=model_dir("llama"))
    assert core.executor.page_bytes == 2 * core.executor.runner.model.layout.page_bytes
    written(core, engine)
    served, ids = written(core, engine)
    assert any(end.ledger.drafts for end in served.ends.values())
    assert ids == alone


def test_a_page_takes_the_bytes_that_it_says(kept, build):
    plain, coded = (build("llama", kv_cache_dtype=one) for one in ("auto", kept))
    for core in (plain, coded):
        assert core.capabilities.kv_bytes == core.executor.runner.kv.stored.nbytes
    assert plain.capabilities.kv_bytes == coded.capabilities.kv_bytes * (4 * 8) / (8 + 2)

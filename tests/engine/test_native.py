"""The engine on the native kernels: what it says without them, and with shared prefixes."""

import logging

import pytest
import torch

from agentrt.engine.ops.attention import PagedAttention
from agentrt_kernels import load
from agentrt_kernels.contract import KernelsUnavailable, Score
from agentrt_kernels.cpu import library

SHARED = [(7 * at) % 250 for at in range(320)]


@pytest.fixture
def native():
    try:
        load("cpu")
    except KernelsUnavailable as error:
        pytest.skip(str(error))


def serve(core, engine, prompts, **sampling):
    for number, prompt in enumerate(prompts):
        core.submit(engine.request(number, prompt, max_tokens=10, **sampling))
    served = engine.drain(core)
    return [served.ids(number) for number in range(len(prompts))]


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gemma2", "gpt_oss", "gpt_neox", "mixtral"])
def test_both_sets_give_the_same_tokens(kind, native, build, engine):
    """Through the engine's own layers and through transformers, with and without a temperature."""
    prompts = [SHARED[:50], SHARED[3:20], [*SHARED[:33], 1, 2, 3], [9]]
    for sampling in ({}, {"temperature": 0.8, "seed": 5, "top_p": 0.9}):
        cores = (build(kind, kernels=name, prefill_chunk_tokens=24) for name in ("cpu", "torch"))
        one, other = (serve(core, engine, prompts, **sampling) for core in cores)
        assert one == other


@pytest.mark.parametrize("kind", ["llama", "gemma2"])
def test_siblings_read_what_they_share_once(kind, native, build, engine):
    """The kernels are told of the prefix, and the tokens are those of each by itself."""
    prompts = [[*SHARED, number, 5] for number in range(6)]
    alone = [serve(build(kind, kernels="cpu"), engine, [prompt])[0] for prompt in prompts]
    core = build(kind, kernels="cpu")
    forward, members = core.executor.runner.forward, []

    def seen(parts):
        prefix = core.executor.runner.shared_prefixes.find(parts)
        members.append(0 if prefix is None else prefix.most_members)
        return forward(parts)

    core.executor.runner.forward = seen
    assert serve(core, engine, prompts) == alone
    assert max(members) == 6


def test_without_a_compiler_the_engine_serves_and_says_why(
    build, engine, monkeypatch, tmp_path, caplog
):
    expected = serve(build("llama", kernels="torch"), engine, [SHARED[:20]])
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    library.native.cache_clear()
    with caplog.at_level(logging.WARNING):
        core = build("llama", self_check="never")
    library.native.cache_clear()
    assert core.executor.runner.model.report.kernels == "torch"
    assert "no C++ compiler in PATH" in core.executor.runner.model.report.kernels_reason
    assert "no C++ compiler in PATH" in caplog.text
    assert serve(core, engine, [SHARED[:20]]) == expected


def test_queries_of_another_type_are_turned_into_the_memorys(native, build):
    """Some architectures compute their queries wider than their cache."""
    core = build("gpt_neox", kernels="cpu", dtype="bfloat16")
    attention: PagedAttention = core.executor.runner.attention
    wide = torch.randn(1, 4, 8)
    found = []
    for query in (wide.bfloat16(), wide.bfloat16().float()):
        out = torch.empty_like(query)
        attention.attend_pages(0, query, Score(0.3), out)
        assert out.dtype == query.dtype
        found.append(out.bfloat16())
    assert torch.equal(*found)

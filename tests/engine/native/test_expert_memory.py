"""Bounded memory for experts: the same tokens and logits, and never more bytes than allowed."""

import dataclasses
import gc
import json
from pathlib import Path

import pytest
import torch

from agentrt.base.config import EngineConfig
from agentrt.base.errors import EngineUnavailable, UsageError
from agentrt.cli.doctor import lines_of_model
from agentrt.engine.models.loader import load_model
from agentrt.engine.models.native.self_check import network_logits
from agentrt.engine.models.native.torch_network import TorchNetwork
from agentrt.engine.models.report import model_report
from agentrt.engine.ops.expert_offload import ExpertOffload
from agentrt.engine.runner.model_compiler import compile_model

PROMPTS = [[7, 3, 9, 200, 31, 8, 5], [1, 2, 3], [77] * 12, [7, 3, 9, 200, 31, 8, 4, 4]]
SLACK = 24 << 20
"""Bytes of all else that a load and some forwards leave in the process."""
KINDS = ["mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss"]


def offload_of(network) -> ExpertOffload:
    assert isinstance(network, TorchNetwork)
    assert network.expert_offload is not None
    return network.expert_offload


def written(core, engine):
    """Tokens of each request, and the likeliest ones behind each with their log-probabilities."""
    for number, prompt in enumerate(PROMPTS):
        core.submit(engine.request(number, prompt, max_tokens=9, logprobs=5))
    served = engine.drain(core)
    numbers = range(len(PROMPTS))
    return [(served.ids(number), served.logprobs(number)) for number in numbers]


def one_expert(build, engine, kind, **settings) -> int:
    """Bytes of an expert, as the error of a bound under them says."""
    with pytest.raises(UsageError, match="one takes") as caught:
        build(kind, expert_memory="1B", **settings)
    return int(caught.value.message.rpartition(" ")[2].replace(",", ""))


@pytest.mark.usefixtures("native_kernels")
@pytest.mark.parametrize("weights", ["checkpoint", "int8", "int4"])
@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_with_all_experts_in_memory(kind, weights, build, engine):
    how = {"kernels": "cpu", "weights": weights, "self_check": "never"}
    expected = written(build(kind, **how), engine)
    size = one_expert(build, engine, kind, **how)
    for bound in (size, 3 * size, 100 * size):
        core = build(kind, expert_memory=str(bound), **how)
        offload = offload_of(core.executor.runner.model.network)
        assert written(core, engine) == expected
        assert size <= offload.resident_bytes <= bound
        counts = offload.counts
        assert sum(counts.hits) > 0
        assert sum(counts.misses) > 0
        if offload.resident_bytes < bound == 100 * size:
            assert sum(counts.misses) * size == offload.resident_bytes  # each once


@pytest.mark.parametrize(
    ("kernels", "weights"),
    [
        ("torch", "checkpoint"),
        ("reference", "checkpoint"),
        ("reference", "int8"),
        ("reference", "int4"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_the_same_where_experts_are_copied_before_products(
    kind, kernels, weights, build, engine
):
    """As beside a GPU, whose slots and host memory are here those of a CPU.

    Products of torch depend on the strides and the alignment of operands in their last bits.
    """
    how = {"kernels": kernels, "weights": weights, "self_check": "never"}
    expected = written(build(kind, **how), engine)
    size = one_expert(build, engine, kind, **how)
    for slots in (1, 2, 7, 40, 1000):
        core = build(kind, expert_memory=str(slots * size), **how)
        offload = offload_of(core.executor.runner.model.network)
        assert_near(written(core, engine), expected)
        assert offload.resident_bytes <= slots * size
        counts = offload.counts
        assert len(counts.hits) == len(counts.misses) == 2
        assert sum(counts.misses) > 0
        if slots == 1000:
            assert sum(counts.misses) * size == offload.resident_bytes  # each once
        if slots == 1:  # it is the passage
            assert not sum(counts.hits)


def assert_near(found, expected) -> None:
    for (ids, logprobs), (expected_ids, expected_logprobs) in zip(found, expected, strict=True):
        assert ids == expected_ids
        for one, other in zip(logprobs, expected_logprobs, strict=True):
            assert dict(one.top) == pytest.approx(dict(other.top), abs=1e-5)


@pytest.mark.usefixtures("native_kernels")
@pytest.mark.parametrize("weights", ["checkpoint", "int8"])
def test_the_process_holds_the_experts_that_fit_and_no_others(weights, model_dir, tmp_path):
    """Anonymous memory, which the system cannot take back."""
    hidden, inner, experts = 256, 1024, 32
    config = json.loads((model_dir("mixtral") / "config.json").read_text())
    config |= {"hidden_size": hidden, "intermediate_size": inner, "num_local_experts": experts}
    (tmp_path / "config.json").write_text(json.dumps(config))
    each = 3 * hidden * inner * (4 if weights == "checkpoint" else 1)
    bound = 3 * each + each // 2
    gc.collect()
    before = anonymous_bytes()
    model = load_model(
        EngineConfig(
            tmp_path,
            kernels="cpu",
            weights=weights,
            random_weights=True,
            expert_memory=str(bound),
        )
    )
    offload = offload_of(model.network)
    layout, logits_size = model.layout, model.logits_size
    logits = network_logits(model.network, layout, model.heads, logits_size)
    gc.collect()
    grown = anonymous_bytes() - before
    assert torch.isfinite(logits).all()
    held = offload.resident_bytes
    assert 3 * each <= held <= bound
    assert sum(offload.counts.misses) > 3
    assert grown < held + SLACK < 2 * experts * each


def anonymous_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    pytest.skip("the system does not tell")


@pytest.mark.parametrize("kind", ["llama", "deepseek_v3"])
def test_what_has_no_experts_here_refuses_a_bound_for_them(kind, model_dir):
    config = EngineConfig(model_dir(kind), expert_memory="1GiB", self_check="never")
    with pytest.raises(EngineUnavailable, match="kept out of memory by expert_memory=1GiB"):
        load_model(config)


@pytest.mark.usefixtures("native_kernels")
def test_a_kind_that_was_never_checked_is_trusted(engine, tmp_path):
    """The comparison would hold all experts in memory; what is asked for is done nevertheless."""
    engine.save_model("mixtral", tmp_path / "model", num_local_experts=3)
    config = EngineConfig(tmp_path / "model", expert_memory="1MB", kernels="cpu")
    assert load_model(config).report.self_check.startswith("trusted: transformers would hold")
    always = dataclasses.replace(config, self_check="always")
    assert load_model(always).report.self_check.startswith("held")


@pytest.mark.usefixtures("native_kernels")
def test_a_draft_model_has_its_experts_in_memory(build, engine, model_dir):
    how = {"kernels": "cpu", "self_check": "never", "expert_memory": "20KB"}
    plain = written(build("mixtral", **how), engine)
    for draft in ("mixtral", "llama"):
        core = build("mixtral", **how, draft_model=model_dir(draft), speculate_tokens=3)
        assert [ids for ids, _ in written(core, engine)] == [ids for ids, _ in plain]


@pytest.mark.usefixtures("native_kernels")
def test_forks_and_preempted_sequences_write_the_same(build, engine):
    prompts = [[7, 3, 9, 200, *tail] for tail in ([1], [1, 2], [8] * 9, [5, 6])]
    ids = []
    for memory in ("", "40KB"):
        core = build(
            "mixtral",
            expert_memory=memory,
            kv_pages=9,
            page_tokens=4,
            max_running=2,
            kernels="cpu",
            self_check="never",
        )
        for number, prompt in enumerate(prompts):
            core.submit(engine.request(number, prompt, max_tokens=12))
        served = engine.drain(core)
        ids.append([served.ids(number) for number in range(len(prompts))])
    assert ids[0] == ids[1]


@pytest.mark.usefixtures("native_kernels")
def test_requests_are_told_of_the_hits_and_misses_of_their_steps(build, engine):
    how = {"kernels": "cpu", "self_check": "never"}
    core = build("mixtral", expert_memory="40KB", **how)
    offload = offload_of(core.executor.runner.model.network)
    before = offload.hits, offload.misses
    core.submit(engine.request(0, PROMPTS[0], max_tokens=6))
    ledger = engine.drain(core).ends[0].ledger
    assert (ledger.expert_hits, ledger.expert_misses) == (
        offload.hits - before[0],
        offload.misses - before[1],
    )
    assert ledger.expert_misses > 0
    unbounded = build("mixtral", **how)
    unbounded.submit(engine.request(0, PROMPTS[0], max_tokens=6))
    ledger = engine.drain(unbounded).ends[0].ledger
    assert (ledger.expert_hits, ledger.expert_misses) == (0, 0)


@pytest.mark.usefixtures("native_kernels")
def test_doctor_tells_how_many_experts_memory_holds(model_dir):
    config = EngineConfig(model_dir("mixtral"), kernels="cpu", self_check="never")
    all_experts = 2 * 4 * 3 * 32 * 48 * 4
    assert model_report(config).expert_bytes == all_experts
    reports = [
        dataclasses.asdict(model_report(dataclasses.replace(config, expert_memory=memory)))
        for memory in ("", "100KB", "1GB")
    ]
    unbounded, bounded, loose = (lines_of_model(one, {}, {"reason": "none"}) for one in reports)
    total = reports[0]["weight_bytes"] / 1e6
    assert unbounded["weights"] == f"{total:,.0f} MB in memory"
    held = total - all_experts / 1e6 + 0.1
    assert bounded["weights"].startswith(f"{held:,.0f} MB in memory, with at most 0 of 0 MB")
    assert bounded["weights"].endswith("all experts in a mapped file")
    assert loose["weights"].startswith(f"{total:,.0f} MB in memory, with at most 1,000 of")


@pytest.mark.usefixtures("native_kernels")
@pytest.mark.parametrize("weights", ["checkpoint", "int4"])
@pytest.mark.parametrize("kind", ["mixtral", "gpt_oss"])
def test_a_compiled_model_is_mapped_as_it_is(kind, weights, model_dir, tmp_path, monkeypatch):
    compile_model(
        EngineConfig(model_dir(kind), weights=weights, self_check="never"), tmp_path / "compiled"
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    config = EngineConfig(tmp_path / "compiled", expert_memory="60KB")
    plain, bounded = load_model(dataclasses.replace(config, expert_memory="")), load_model(config)
    for _ in range(2):
        expected, found = (
            network_logits(one.network, one.layout, one.heads, one.logits_size)
            for one in (plain, bounded)
        )
        assert torch.equal(found, expected)
    offload = offload_of(bounded.network)
    assert 0 < offload.resident_bytes <= 60_000
    assert offload.misses > 0
    assert not (tmp_path / "cache" / "agentrt" / "spilled").exists()
    with pytest.raises(UsageError, match="hold none: one takes"):
        load_model(dataclasses.replace(config, expert_memory="1KB"))

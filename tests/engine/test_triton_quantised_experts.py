"""Mixtures of experts that stay quantised, on Triton kernels under the interpreter."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from agentrt.base.errors import EngineUnavailable
from agentrt.engine.models.quantisation import quantised
from agentrt.engine.ops.linear import LinearBackend
from agentrt_kernels import load
from agentrt_kernels.contract import SILU
from agentrt_kernels.cpu.experts import ExpertMatrices
from tests.engine.mxfp4_models import read_by_transformers, written_in_mxfp4
from tests.engine.published_formats import written
from tests.engine.published_models import logits_of

pytest.importorskip("triton", minversion="3.7", reason="the interpreter needs triton 3.7")

WIDE = {"hidden_size": 64, "moe_intermediate_size": 64, "head_dim": 16, "num_hidden_layers": 1}
SHARED = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 40,
}


def assert_near(found: torch.Tensor, expected: torch.Tensor, allowed: float = 1e-3) -> None:
    assert (found - expected).norm() <= allowed * expected.norm()


@pytest.fixture
def plain(engine, tmp_path):
    engine.save_model("qwen3_moe", tmp_path / "plain", **WIDE)
    return tmp_path / "plain"


@pytest.mark.parametrize(
    ("kind", "fields", "weights"),
    [
        ("mixtral", {}, "int4"),
        pytest.param("mixtral", {}, "int8", marks=pytest.mark.slow),
        pytest.param("olmoe", {}, "int4", marks=pytest.mark.slow),
        pytest.param("qwen2_moe", SHARED, "int8", marks=pytest.mark.slow),
        pytest.param("qwen3_moe", {}, "int4", marks=pytest.mark.slow),
        ("gpt_oss", {}, "int8"),  # stacked, with biases
    ],
)
def test_experts_rounded_at_load(kind, fields, weights, engine, tmp_path) -> None:
    engine.save_model(kind, tmp_path, num_hidden_layers=1, **fields)
    expected, _ = logits_of(tmp_path, weights=weights, kernels="reference")
    found, model = logits_of(tmp_path, weights=weights, kernels="triton")
    assert_near(found, expected)
    assert model.report.linear == weights


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("compressed int4 in groups", marks=pytest.mark.slow),
        pytest.param("compressed int8 with zeros", marks=pytest.mark.slow),
        "gptq int4 reordered",
        pytest.param("awq", marks=pytest.mark.slow),
        pytest.param("compressed fp8 in rows", marks=pytest.mark.slow),
        "nf4",
    ],
)
def test_published_experts(name, plain) -> None:
    path = written(name, plain)  # which gives the plain one the same values
    expected, _ = logits_of(plain, kernels="reference")
    found, model = logits_of(path, kernels="triton")
    assert_near(found, expected)
    values = sum(one.numel() for name, one in load_file(plain / "model.safetensors").items())
    assert 0 < model.network.quantised_bytes < 2 * values


def test_gpt_oss_stays_in_mxfp4(engine, tmp_path) -> None:
    path = written_in_mxfp4(tmp_path / "published", engine)
    found, model = logits_of(path, kernels="triton")
    expected, _ = logits_of(read_by_transformers(path, tmp_path / "saved"), kernels="reference")
    assert_near(found, expected)
    assert (model.report.path, model.report.linear) == ("fast", "MXFP4")


@pytest.mark.parametrize("name", ["fp8 blocks", "compressed fp8 in rows"])
def test_rows_in_fp8_multiply_experts_in_fp8(name, plain) -> None:
    path = written(name, plain)
    exact, _ = logits_of(path, kernels="reference")
    expected, _ = logits_of(path, kernels="reference", activations="fp8")
    found, model = logits_of(path, kernels="triton", activations="fp8")
    assert_near(found, expected, 1e-2)
    assert (expected - exact).norm() > 2e-3 * exact.norm()
    assert model.report.linear.endswith(" by fp8")


def test_experts_of_different_forms_are_refused() -> None:
    """Groups of one expert differ from those of another."""
    plain = torch.randn(6, 32, generator=torch.Generator().manual_seed(0))
    experts = [
        ExpertMatrices(quantised(plain, 4, group), None, plain[:, :3], None) for group in (8, 16)
    ]
    backend = LinearBackend(torch.float32, torch.device("cpu"), load("triton"))
    with pytest.raises(EngineUnavailable, match="differ in bits, groups, zeros or tables") as told:
        backend.experts(experts, SILU)
    assert "elsewhere" in told.value.hint

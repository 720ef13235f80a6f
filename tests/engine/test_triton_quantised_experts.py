"""Mixtures of experts that stay quantised, on Triton kernels under the interpreter."""

from __future__ import annotations

import pytest
import torch

from agentrt.base.errors import EngineUnavailable
from agentrt.engine.models.quantisation import quantised
from agentrt.engine.ops.linear import LinearBackend
from agentrt_kernels import load
from agentrt_kernels.contract import SILU
from agentrt_kernels.cpu.experts import ExpertMatrices
from tests.engine.mxfp4_models import read_by_transformers, written_in_mxfp4
from tests.engine.published_models import logits_of

pytest.importorskip("triton", minversion="3.7", reason="the interpreter needs triton 3.7")

SHARED = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 40,
}


def assert_near(found: torch.Tensor, expected: torch.Tensor) -> None:
    assert (found - expected).norm() <= 1e-3 * expected.norm()


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


def test_gpt_oss_stays_in_mxfp4(engine, tmp_path) -> None:
    path = written_in_mxfp4(tmp_path / "published", engine)
    found, model = logits_of(path, kernels="triton")
    expected, _ = logits_of(read_by_transformers(path, tmp_path / "saved"), kernels="reference")
    assert_near(found, expected)
    assert (model.report.path, model.report.linear) == ("fast", "MXFP4")


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

"""Mixtures of experts that stay quantised, on Triton kernels under the interpreter."""

from __future__ import annotations

import pytest
import torch

from agentrt.base.errors import EngineUnavailable, UsageError
from agentrt.engine.models.loader import LoadedModel
from agentrt.engine.models.native.torch_network import TorchNetwork
from agentrt.engine.models.quantisation import quantised
from agentrt.engine.ops.expert_offload import ExpertOffload
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


def offload_of(model: LoadedModel) -> ExpertOffload:
    assert isinstance(model.network, TorchNetwork)
    assert model.network.expert_offload is not None
    return model.network.expert_offload


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


@pytest.mark.parametrize(
    ("kind", "weights"),
    [
        ("mixtral", "int4"),
        ("gpt_oss", "int8"),  # with biases
        pytest.param("qwen3_moe", "int4", marks=pytest.mark.slow),
    ],
)
def test_bounded_memory_changes_no_bit(kind, weights, engine, tmp_path) -> None:
    engine.save_model(kind, tmp_path, num_hidden_layers=1)
    how = {"weights": weights, "kernels": "triton"}
    expected, model = logits_of(tmp_path, **how)
    with pytest.raises(UsageError, match="one takes") as told:
        logits_of(tmp_path, **how, expert_memory="1B")
    size = int(told.value.message.rpartition(" ")[2].replace(",", ""))
    for slots in (1, 3):
        found, bounded = logits_of(tmp_path, **how, expert_memory=str(slots * size))
        assert torch.equal(found, expected)
        offload = offload_of(bounded)
        assert offload.misses > 0
        assert offload.resident_bytes <= (slots - 1) * size
        assert bounded.network.quantised_bytes == model.network.quantised_bytes


def test_gpt_oss_in_mxfp4_changes_no_bit_in_bounded_memory(engine, tmp_path) -> None:
    path = written_in_mxfp4(tmp_path / "published", engine)
    expected, _ = logits_of(path, kernels="triton")
    found, model = logits_of(path, kernels="triton", expert_memory="40KB")
    assert torch.equal(found, expected)
    assert offload_of(model).misses > 0


def test_slots_of_one_form_hold_no_experts_of_another() -> None:
    plain = torch.randn(8, 32, generator=torch.Generator().manual_seed(0))
    offload = ExpertOffload(1 << 20, 2)
    backend = LinearBackend(torch.float32, torch.device("cpu"), load("triton"), offload)
    for bits in (4, 8):
        codes = quantised(plain, bits, 32)
        layer = [ExpertMatrices(codes, None, plain[:, :4].contiguous(), None) for _ in range(2)]
        if bits == 4:
            backend.experts(layer, SILU)
            continue
        with pytest.raises(EngineUnavailable, match="quantised differently"):
            backend.experts(layer, SILU)


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

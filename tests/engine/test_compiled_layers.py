"""Compiled models of decoders that are computed part by part: experts, norms over all heads."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from agentrt.base.compiled_model import MANIFEST
from agentrt.base.config import EngineConfig
from agentrt.engine.models.compiled.manifest import PACKED_FILE, PLAIN_FILE
from agentrt.engine.models.load_plan import plan_load
from agentrt.engine.runner.model_compiler import compile_model
from agentrt_kernels.cpu.kernel_set import CpuKernels
from tests.engine.compiled_models import config_of, edit, logits_of, refusal, same

FORMATS: dict[str, dict[str, Any]] = {
    "float32": {},
    "bf16": {"dtype": "bfloat16"},
    "int8": {"weights": "int8"},
    "int4": {"weights": "int4", "head_weights": "checkpoint"},
}
BY_PARTS = ("mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss", "olmo2")
FEW_EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 48,
}
MORE: dict[str, dict[str, Any]] = {
    "qwen2_moe": FEW_EXPERTS,
    "qwen3_moe": {"mlp_only_layers": [0]},
}

pytestmark = pytest.mark.usefixtures("native_kernels")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", BY_PARTS)
def test_decoders_that_are_computed_by_parts_keep_theirs(kind, form, engine, tmp_path):
    folder = tmp_path / "source"
    engine.save_model(kind, folder, **MORE.get(kind, {}))
    same(folder, tmp_path / "compiled", engine, **FORMATS[form])


@pytest.fixture
def experts(engine, tmp_path):
    engine.save_model("qwen2_moe", tmp_path / "source", **FEW_EXPERTS)
    compile_model(config_of(tmp_path / "source", weights="int4"), tmp_path / "compiled")
    return tmp_path / "compiled"


@pytest.mark.parametrize("name", ["layers.1.experts.3.gate_up", "layers.0.experts.0.down"])
def test_codes_of_one_expert_are_held_to_its_place(name, experts):
    forms = json.loads((experts / MANIFEST).read_text())["matrices"]
    forms[name]["bits"] = 8
    edit(experts, matrices=forms)
    assert f"{name}: its codes is" in refusal(experts).message


@pytest.mark.parametrize(
    "size", ["num_experts", "moe_intermediate_size", "shared_expert_intermediate_size"]
)
def test_a_config_of_other_experts_never_reaches_the_kernels(size, experts):
    file = experts / "config.json"
    found = json.loads(file.read_text())
    file.write_text(json.dumps(found | {size: found[size] * 2}))
    edit(experts, files={})
    assert "holds other weights than its config.json says" in refusal(experts).message


def test_experts_begin_lines_one_by_one(experts):
    with safe_open(experts / PACKED_FILE, framework="pt") as opened:
        names = set(opened.keys())
        parts = ("codes", "scales", "factors")
        each = {f"layers.1.experts.{one}.down.{part}" for one in range(4) for part in parts}
        assert each < names
        assert all(opened.get_tensor(name).data_ptr() % 64 == 0 for name in each)


def test_experts_take_rows_of_bytes_and_other_routes(experts):
    source = experts.parent / "source"
    settings: dict[str, Any] = {"expert_routing": "threshold=0.6"}
    kernels = plan_load(EngineConfig(experts)).kernels.kernels
    assert isinstance(kernels, CpuKernels)
    if kernels.has_byte_products:
        settings["activations"] = "int8"
    expected, _ = logits_of(config_of(source, weights="int4", **settings))
    found, _ = logits_of(EngineConfig(experts, **settings))
    assert torch.equal(found, expected)
    assert not torch.equal(found, logits_of(EngineConfig(experts))[0])


def test_norms_over_all_heads_are_held_to_the_heads(engine, tmp_path):
    engine.save_model("olmo2", tmp_path / "source")
    target = tmp_path / "compiled"
    compile_model(config_of(tmp_path / "source"), target)
    plain = load_file(target / PLAIN_FILE)
    plain["layers.1.key_norm"] = plain["layers.1.key_norm"][:-1].clone()
    save_file(plain, target / PLAIN_FILE)
    edit(target, files={})
    assert "layers.1.key_norm is (15,), not (16,)" in refusal(target).message
    plain["layers.1.key_norm"] = torch.zeros(16, dtype=torch.float16)
    save_file(plain, target / PLAIN_FILE)
    assert "layers.1.key_norm is in torch.float16, not in" in refusal(target).message

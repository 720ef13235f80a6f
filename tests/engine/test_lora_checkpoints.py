"""Adapters that are refused, each with one error that names what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from agentrt.base.config import EngineConfig, LoraAdapter
from agentrt.base.errors import ModelInvalid, UsageError
from agentrt.engine.models.loader import load_model
from tests.engine.lora_checkpoints import edit_tensors, save_adapter


def refused(base, path):
    config = EngineConfig(base, adapters=(LoraAdapter("a", path),), self_check="never")
    with pytest.raises(ModelInvalid) as caught:
        load_model(config)
    assert caught.value.hint
    return caught.value.message


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("use_dora", True),
        ("bias", "all"),
        ("lora_bias", True),
        ("modules_to_save", ["lm_head"]),
        ("trainable_token_indices", [1]),
        ("target_parameters", ["mlp.experts.down_proj"]),
        ("layer_replication", [[0, 2]]),
        ("init_lora_weights", "pissa_niter_4"),
        ("peft_type", "LOHA"),
        ("r", 0),
        ("lora_alpha", "much"),
        ("target_modules", []),
        ("target_modules", "(q_proj"),
        ("rank_pattern", {"q_proj": -1}),
        ("alpha_pattern", ["q_proj"]),
    ],
)
def test_settings_that_are_not_computed(setting, value, model_dir, tmp_path):
    base = model_dir("llama")
    path = save_adapter(base, tmp_path / "a")
    file = path / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {setting: value}))
    assert setting in refused(base, path)


PLACE = "base_model.model.model.layers.0.self_attn.q_proj.lora_"


def with_head(tensors):
    tensors["base_model.model.lm_head.lora_A.weight"] = torch.zeros(4, 32)
    tensors["base_model.model.lm_head.lora_B.weight"] = torch.zeros(262, 4)


def with_embedding(tensors):
    tensors["base_model.model.model.embed_tokens.lora_embedding_A"] = torch.zeros(4, 262)


def with_magnitude(tensors):
    tensors[f"{PLACE}magnitude_vector"] = torch.zeros(32)


def of_wider_base(tensors):
    tensors[f"{PLACE}A.weight"] = torch.zeros(4, 64)


def of_other_rank(tensors):
    tensors[f"{PLACE}A.weight"] = torch.zeros(5, 32)


def without_up(tensors):
    del tensors[f"{PLACE}B.weight"]


def not_finite(tensors):
    tensors[f"{PLACE}B.weight"][0, 0] = float("nan")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (with_head, "lm_head"),
        (with_embedding, "embed_tokens"),
        (with_magnitude, "magnitude_vector"),
        (of_wider_base, "(4, 64), not (4, 32)"),
        (of_other_rank, "(5, 32), not (4, 32)"),
        (without_up, "missing"),
        (not_finite, "not finite"),
        (dict.clear, "no matrices"),
    ],
)
def test_matrices_that_do_not_fit(change, named, model_dir, tmp_path):
    base = model_dir("llama")
    path = save_adapter(base, tmp_path / "a")
    edit_tensors(path, change)
    assert named in refused(base, path)


def test_modules_that_the_settings_do_not_name(model_dir, tmp_path):
    base = model_dir("llama")
    path = save_adapter(base, tmp_path / "a")
    file = path / "adapter_config.json"
    pattern = {"target_modules": r"model\.layers\.\d+\.self_attn\.[qkvo]_proj"}
    file.write_text(json.dumps(json.loads(file.read_text()) | pattern))
    assert "mlp" in refused(base, path)


def test_a_directory_without_an_adapter(model_dir, tmp_path):
    base = model_dir("llama")
    assert "adapter_config.json" in refused(base, tmp_path)
    path = save_adapter(base, tmp_path / "a")
    (path / "adapter_model.safetensors").rename(path / "adapter_model.bin")
    assert "adapter_model.bin, which may run code" in refused(base, path)
    (path / "adapter_model.safetensors").write_bytes(b"\xff" * 64)
    assert "cannot be loaded" in refused(base, path)


def test_experts_keep_their_weights(model_dir, tmp_path):
    base = model_dir("qwen3_moe")
    path = save_adapter(base, tmp_path / "a", targets=("q_proj",))
    name = "base_model.model.model.layers.0.mlp.experts.0.up_proj.lora_"

    def with_expert(tensors):
        tensors[f"{name}A.weight"] = torch.zeros(4, 32)
        tensors[f"{name}B.weight"] = torch.zeros(32, 4)

    edit_tensors(path, with_expert)
    assert "experts.0.up_proj" in refused(base, path)


def test_models_that_go_through_transformers(model_dir, tmp_path):
    base = model_dir("gpt_neox")
    path = save_adapter(model_dir("llama"), tmp_path / "a")
    assert "through transformers" in refused(base, path)


@pytest.mark.parametrize(
    "adapters",
    [
        (LoraAdapter("a b", Path("x")),),
        (LoraAdapter("", Path("x")),),
        (LoraAdapter("a", Path("x")), LoraAdapter("a", Path("y"))),
    ],
)
def test_names(adapters, model_dir):
    with pytest.raises(UsageError):
        load_model(EngineConfig(model_dir("llama"), adapters=adapters))


def test_no_adapters_on_a_gpu(model_dir, tmp_path):
    adapters = (LoraAdapter("a", tmp_path),)
    with pytest.raises(UsageError, match="on a CPU alone"):
        load_model(EngineConfig(model_dir("llama"), device="cuda", adapters=adapters))

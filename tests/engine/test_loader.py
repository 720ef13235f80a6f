"""Loading: what is refused, and that it says what, where and how to mend it."""

import json
import logging
import os

import pytest
import torch
from safetensors.torch import load_file, save_file

from agentrt.base.clock import FakeClock
from agentrt.base.config import EngineConfig
from agentrt.base.errors import EngineUnavailable, ModelInvalid
from agentrt.engine.core import EngineCore
from agentrt.engine.models.checkpoint import tensor_shapes
from agentrt.engine.models.loader import load_model
from agentrt.engine.models.native.model_config import Declined, shape_of
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.native.weights import shape_mismatch

PROMPT = [(3 * at) % 250 for at in range(40)]


@pytest.fixture
def own_dir(engine, tmp_path):
    engine.save_model("llama", tmp_path)
    return tmp_path


def refusal(path, **settings):
    with pytest.raises(ModelInvalid) as caught:
        EngineCore(EngineConfig(path, kv_pages=8, **settings), FakeClock())
    assert str(path) in caught.value.message
    assert caught.value.hint
    return caught.value.message


def edit(path, **changes):
    file = path / "config.json"
    facts = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps(facts))


def test_no_directory(tmp_path):
    assert "is not a directory" in refusal(tmp_path / "nowhere")


def test_no_config(own_dir):
    (own_dir / "config.json").unlink()
    assert "config.json" in refusal(own_dir)


def test_broken_config(own_dir):
    (own_dir / "config.json").write_text("{")
    assert "config.json" in refusal(own_dir)


def test_no_tokenizer(own_dir):
    (own_dir / "tokenizer.json").unlink()
    assert "tokenizer.json" in refusal(own_dir)


def test_no_weights(own_dir):
    (own_dir / "model.safetensors").unlink()
    assert "has no *.safetensors: no weights at all" in refusal(own_dir)


def test_pickled_weights_are_not_opened(own_dir):
    (own_dir / "model.safetensors").unlink()
    (own_dir / "pytorch_model.bin").write_bytes(b"\x80\x04never read")
    assert "only pytorch_model.bin, which may run code" in refusal(own_dir)


def test_code_of_a_checkpoint_is_not_run(own_dir):
    (own_dir / "modeling_own.py").write_text("raise SystemExit('ran')")
    edit(own_dir, auto_map={"AutoModelForCausalLM": "modeling_own.Own"})
    assert load_model(EngineConfig(own_dir)).report.path == "fast"
    edit(own_dir, hidden_act="gelu")
    assert "asks to run code of its own" in refusal(own_dir)


def test_unknown_architecture(own_dir):
    edit(own_dir, model_type="never_heard_of", architectures=["NeverHeardOf"])
    assert "cannot be loaded" in refusal(own_dir)


def test_weights_of_another_shape(own_dir):
    edit(own_dir, num_hidden_layers=3)
    assert "lacks 9 weights, model.layers.2" in refusal(own_dir)


def test_a_weight_of_another_shape_is_named_with_both_shapes(own_dir):
    file = own_dir / "model.safetensors"
    weights = load_file(file)
    name = "model.layers.1.mlp.up_proj.weight"
    weights[name] = weights[name][:7].clone()
    save_file(weights, file, {"format": "pt"})
    wanted = f"has 1 weights of other shapes, {name} first, which is (7, 32), not (48, 32)"
    assert wanted in refusal(own_dir)


def test_broken_weights(own_dir):
    (own_dir / "model.safetensors").write_bytes(b"\xff" * 64)
    assert "cannot be loaded" in refusal(own_dir)


def test_quantised_weights_are_named(own_dir):
    edit(own_dir, quantization_config={"quant_method": "quip"})
    assert "quantised (quip)" in refusal(own_dir)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_a_device_that_is_not_there(own_dir):
    with pytest.raises(EngineUnavailable, match="no CUDA device"):
        load_model(EngineConfig(own_dir, device="cuda"))


def test_random_weights_need_no_checkpoint_and_follow_the_seed(own_dir, engine):
    (own_dir / "model.safetensors").unlink()
    outputs = []
    for seed in (1, 1, 2):
        core = engine.core(own_dir, random_weights=True, seed=seed)
        core.submit(engine.request(1, PROMPT, max_tokens=12, logprobs=5))
        outputs.append(engine.drain(core).logprobs(1))
        core.close()
    assert outputs[0] == outputs[1] != outputs[2]


@pytest.mark.parametrize("tile_tokens", [8, 512])
def test_sinks_and_windows_page_too(tile_tokens, engine, tmp_path):
    """gpt-oss: attention sinks, alternating windows; alone in small tiles and together in one."""
    engine.compare_logits("gpt_oss", tmp_path, page_tokens=4, tile_tokens=tile_tokens)


@pytest.mark.parametrize("kind", ["mixtral", "qwen2_moe", "qwen3_moe", "olmoe"])
def test_experts_give_the_logits_of_transformers(kind, engine, tmp_path):
    engine.compare_logits(kind, tmp_path, page_tokens=4, tile_tokens=512)


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_act": "gelu"},
        {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0}},
        {"layer_types": ["full_attention", "sliding_attention"]},
        {"model_type": "gptj"},
        {"rms_norm_eps": None},
    ],
    ids=str,
)
def test_what_is_not_plainly_dense_is_left_to_transformers(change, own_dir):
    facts = {**json.loads((own_dir / "config.json").read_text()), **change}
    facts = {name: value for name, value in facts.items() if value is not None}
    assert isinstance(shape_of(facts), Declined)


def test_weights_that_are_not_known_are_left_to_transformers(own_dir):
    shape = shape_of(json.loads((own_dir / "config.json").read_text()))
    assert isinstance(shape, DecoderShape)
    held = tensor_shapes(own_dir)
    assert shape_mismatch(shape, held) is None
    odd = "model.layers.0.mlp.router.weight"
    assert shape_mismatch(shape, {**held, odd: (4, 32)}) == f"it holds {odd}"


@pytest.mark.parametrize(("kind", "loud"), [("llama", True), ("gpt_neox", False)])
def test_a_known_family_that_is_slow_is_a_warning(kind, loud, engine, tmp_path, caplog):
    engine.save_model(kind, tmp_path)
    if kind == "llama":
        edit(tmp_path, hidden_act="gelu")
    with caplog.at_level(logging.WARNING):
        assert load_model(EngineConfig(tmp_path)).report.path == "slow"
    assert any("goes through transformers" in said for said in caplog.messages) is loud


def test_stretched_rotary_positions_equal_the_reference(engine, tmp_path):
    rope = {
        "rope_type": "llama3",
        "rope_theta": 500.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    engine.compare_logits("llama", tmp_path, page_tokens=16, tile_tokens=64, rope_parameters=rope)


def test_shards_are_read_by_their_index(engine, tmp_path):
    engine.save_model("llama", tmp_path, shard="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    engine.compare_logits("llama", tmp_path, page_tokens=16, tile_tokens=64, save=False)
    next(iter(tmp_path.glob("*.safetensors"))).unlink()
    assert "cannot be loaded" in refusal(tmp_path)


def test_half_precision_is_close(own_dir, engine):
    exact, half = (engine.core(own_dir, dtype=dtype) for dtype in ("float32", "bfloat16"))
    told = []
    for core in (exact, half):
        core.submit(engine.request(1, PROMPT, max_tokens=1, logprobs=20))
        told.append(dict(engine.drain(core).logprobs(1)[0].top))
        core.close()
    shared = told[0].keys() & told[1].keys()
    assert len(shared) > 10
    assert all(abs(told[0][token] - told[1][token]) < 0.3 for token in shared)


def test_a_file_without_the_right_to_read_it(own_dir, monkeypatch):
    """safetensors says that there is no such file."""
    closed = own_dir / "model.safetensors"
    closed.write_bytes(b"\xff" * 64)
    monkeypatch.setattr(os, "access", lambda path, mode: path != closed)
    with pytest.raises(ModelInvalid) as caught:
        EngineCore(EngineConfig(own_dir, kv_pages=8), FakeClock())
    assert caught.value.message == f"cannot read {closed}: Permission denied"
    assert "right" in caught.value.hint

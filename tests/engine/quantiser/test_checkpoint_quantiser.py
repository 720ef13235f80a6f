"""Checkpoints as they are written: what a reader computes is what was measured."""

from __future__ import annotations

import json
import shutil
from typing import Any, Literal

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from agentrt import embedded
from agentrt.base.errors import ModelInvalid, UsageError
from agentrt.engine.models.checkpoint import tensors
from agentrt.engine.models.packed_weight import PackedWeight
from agentrt.engine.models.quantiser.checkpoint_quantiser import quantise_checkpoint
from agentrt.engine.models.quantiser.quantisable_model import modules_of, open_model
from agentrt.engine.models.quantiser.settings import QuantiserSettings
from tests.engine.quantiser.pack_quantized import unpacked

CALIBRATION = [[(5 * at + number) % 250 for at in range(24)] for number in range(6)]
HELD_OUT = [[(11 * at + number) % 250 for at in range(17)] for number in range(3)]


def quantised(path, target, method, group=16, **more):
    settings = QuantiserSettings(method, 0 if method == "fp8" else group, **more)
    calibration = CALIBRATION if settings.calibrates else ()
    return quantise_checkpoint(
        open_model(path), target, settings, calibration=calibration, held_out=HELD_OUT
    )


def plain_copy(target, folder):
    """The checkpoint with its matrices unpacked, as transformers loads it by itself."""
    config = json.loads((target / "config.json").read_text())
    told = config.pop("quantization_config")
    forms: dict[str, dict[str, Any]] = {}
    for group in told["config_groups"].values():
        forms |= dict.fromkeys(group["targets"], group["weights"])
    tensors = load_file(target / "model.safetensors")
    made = {}
    for name, tensor in tensors.items():
        module, _, kind = name.rpartition(".")
        if kind == "weight_packed":
            form = forms.get(module, forms["Linear"])
            assert module not in told["ignore"]
            made[f"{module}.weight"] = unpacked(tensors, module, form["num_bits"])
        elif tensor.dtype is torch.float8_e4m3fn:
            assert module not in told["ignore"]
            made[name] = tensor.float() * tensors[f"{module}.weight_scale"].float()
        elif not kind.startswith("weight_"):
            made[name] = tensor
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    save_file(made, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def logits_of(path):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager"
    )
    with torch.inference_mode():
        return torch.cat([model(torch.tensor([ids])).logits[0] for ids in HELD_OUT])


def divergence(reference, found):
    reference, found = reference.log_softmax(-1), found.log_softmax(-1)
    return float((reference.exp() * (reference - found)).sum(-1).mean())


@pytest.mark.parametrize("method", ["int8", "int4", "fp8", "awq", "gptq"])
@pytest.mark.parametrize("kind", ["llama", "qwen2", "phi3", "gemma2", "cohere", "glm4"])
def test_the_measured_divergence_is_that_of_what_is_read(kind, method, model_dir, tmp_path):
    source, target = model_dir(kind), tmp_path / "target"
    result = quantised(source, target, method)
    found = logits_of(plain_copy(target, tmp_path / "plain"))
    expected = divergence(logits_of(source), found)
    assert result.divergence is not None
    assert result.divergence.tokens == 51
    assert result.divergence.kl_nats == pytest.approx(expected, rel=2e-2, abs=1e-6)
    assert 0 < result.divergence.kl_nats < 1
    assert result.rounded == len(list(modules_of(open_model(source).shape)))
    assert result.written_bytes < result.source_bytes


def test_better_methods_diverge_less(model_dir, tmp_path):
    found = {}
    for method in ("int8", "int4", "awq", "gptq"):
        result = quantised(model_dir("llama"), tmp_path / method, method)
        assert result.divergence is not None
        found[method] = result.divergence.kl_nats
    assert found["int8"] < 0.05 * found["int4"]
    assert found["gptq"] < 0.9 * found["int4"]
    assert found["awq"] < found["int4"]


def test_exceptions_are_kept_or_take_eight_bits(model_dir, tmp_path):
    source, target = model_dir("llama"), tmp_path / "target"
    result = quantised(
        source,
        target,
        "awq",
        kept=("layers.0.self_attn.k_proj", "layers.1.mlp.down*"),
        eight_bits=("model.layers.1.self_attn.o_proj",),
    )
    before = load_file(source / "model.safetensors")
    after = load_file(target / "model.safetensors")
    kept = {name for name in after if name.endswith("_proj.weight")}
    attention = [f"model.layers.0.self_attn.{part}_proj.weight" for part in "qkv"]
    assert kept == {*attention, "model.layers.1.mlp.down_proj.weight"}
    assert all(torch.equal(after[name], before[name]) for name in kept)
    assert result.kept == 4
    told = json.loads((target / "config.json").read_text())["quantization_config"]
    assert told["ignore"] == sorted([*(name.removesuffix(".weight") for name in kept), "lm_head"])
    assert told["config_groups"]["group_1"]["targets"] == ["model.layers.1.self_attn.o_proj"]
    assert told["config_groups"]["group_1"]["weights"]["num_bits"] == 8
    found = logits_of(plain_copy(target, tmp_path / "plain"))
    assert result.divergence is not None
    assert result.divergence.kl_nats == pytest.approx(
        divergence(logits_of(source), found), rel=2e-2
    )


def test_all_but_the_matrices_stays_as_it_is(model_dir, tmp_path):
    quantised(model_dir("qwen2"), tmp_path / "target", "gptq")
    before = load_file(model_dir("qwen2") / "model.safetensors")
    after = load_file(tmp_path / "target" / "model.safetensors")
    plain = [name for name in before if not name.endswith("_proj.weight")]
    assert "lm_head.weight" in plain
    assert all(torch.equal(after[name], before[name]) for name in plain)
    config = json.loads((tmp_path / "target" / "config.json").read_text())
    told = config.pop("quantization_config")
    assert config == json.loads((model_dir("qwen2") / "config.json").read_text())
    assert told["config_groups"]["group_0"]["weights"]["actorder"] == "weight"


def test_fp8_is_read_by_the_engine_as_it_was_measured(model_dir, tmp_path):
    target = tmp_path / "target"
    result = quantised(model_dir("llama"), target, "fp8")
    stored = load_file(target / "model.safetensors")
    read = dict(tensors(target, torch.float32, torch.device("cpu")))
    packed = {name: one for name, one in read.items() if isinstance(one, PackedWeight)}
    assert len(packed) == 14
    plain = load_file(model_dir("llama") / "model.safetensors")
    for name, one in packed.items():
        scales = stored[f"{name}_scale"].float()
        assert torch.equal(one.dequantize(), stored[name].float() * scales)
        # Half a step of three bits, or of the smallest values; a scale in bf16 may cut off more.
        allowed = plain[name].abs() / 16 + scales / 512 + scales * 448 / 256
        assert ((one.dequantize() - plain[name]).abs() <= allowed).all()
    told = json.loads((target / "config.json").read_text())["quantization_config"]
    assert told["format"] == "float-quantized"
    (group,) = told["config_groups"].values()
    assert group["weights"]["strategy"] == "channel"
    assert group["input_activations"]["strategy"] == "token"
    assert group["input_activations"]["dynamic"] is True
    assert result.divergence is not None
    worse = quantised(model_dir("llama"), tmp_path / "int4", "int4").divergence
    assert worse is not None
    assert result.divergence.kl_nats < 0.2 * worse.kl_nats


@pytest.mark.parametrize("method", ["int8", "int4", "gptq"])
def test_the_engine_reads_the_same_matrices(method, model_dir, tmp_path):
    target = tmp_path / "target"
    quantised(model_dir("qwen2"), target, method, 0 if method == "int8" else 16)
    stored = load_file(target / "model.safetensors")
    read = dict(tensors(target, torch.float32, torch.device("cpu")))
    bits: Literal[4, 8] = 8 if method == "int8" else 4
    packed = {name: one for name, one in read.items() if isinstance(one, PackedWeight)}
    assert len(packed) == 14
    for name, one in packed.items():
        assert one.bits == bits
        expected = unpacked(stored, name.removesuffix(".weight"), bits)
        torch.testing.assert_close(one.dequantize(), expected, rtol=1e-6, atol=0)


def test_progress_counts_matrices_up_to_all(model_dir, tmp_path):
    told = []
    quantise_checkpoint(
        open_model(model_dir("llama")),
        tmp_path / "target",
        QuantiserSettings("int8", 0),
        on_progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(done, 14) for done in (3, 4, 6, 7, 10, 11, 13, 14)]


def test_an_interrupted_run_leaves_nothing(model_dir, tmp_path):
    def interrupt(done, total):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quantise_checkpoint(
            open_model(model_dir("llama")),
            tmp_path / "target",
            QuantiserSettings("int8", 0),
            on_progress=interrupt,
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (QuantiserSettings("int4", 48), "down_proj|q_proj"),
        (QuantiserSettings("int4", 16, kept=("layers.9.*",)), "layers.9.* fits no matrix"),
        (QuantiserSettings("fp8", 16), "--method fp8 takes no --group"),
        (QuantiserSettings("fp8", 0, eight_bits=("*",)), "--method fp8 takes no --eight-bits"),
        (QuantiserSettings("int4", 16, kept=("*",)), "keeps every matrix"),
        (QuantiserSettings("int4", 16, eight_bits=("head",)), "--eight-bits head fits no matrix"),
    ],
)
def test_settings_that_fit_no_matrix_are_refused(settings, reason, model_dir, tmp_path):
    with pytest.raises(UsageError, match=reason.replace("*", r"\*")):
        quantise_checkpoint(open_model(model_dir("llama")), tmp_path / "target", settings)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["mixtral", "gpt2"])
def test_models_whose_matrices_are_not_known_are_refused(kind, model_dir):
    with pytest.raises(ModelInvalid, match=r"experts|no decoder whose layers are known"):
        open_model(model_dir(kind))


def test_what_is_quantised_already_is_refused(model_dir, tmp_path):
    quantised(model_dir("llama"), tmp_path / "target", "int8", 0)
    with pytest.raises(ModelInvalid, match="quantised"):
        open_model(tmp_path / "target")


def test_a_broken_file_is_one_error(model_dir, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(model_dir("llama"), broken)
    file = broken / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ModelInvalid, match="cannot be loaded"):
        open_model(broken)


def test_activations_that_are_not_finite_are_refused(model_dir, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(model_dir("llama"), broken)
    tensors = load_file(broken / "model.safetensors")
    tensors["model.layers.1.mlp.up_proj.weight"][0, 0] = torch.nan
    save_file(tensors, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelInvalid, match="activations of layer 1"):
        quantised(broken, tmp_path / "target", "gptq")


def test_the_embedded_model_is_quantised_as_it_is_stored(tmp_path):
    """In bfloat16, with scales of the same type, and a head that is the embedding."""
    quantise_checkpoint(
        open_model(embedded.path()), tmp_path / "target", QuantiserSettings("int4", 32)
    )
    tensors = load_file(tmp_path / "target" / "model.safetensors")
    kinds = {name.rpartition(".")[2]: tensor.dtype for name, tensor in tensors.items()}
    assert kinds == {
        "weight": torch.bfloat16,
        "weight_packed": torch.int32,
        "weight_scale": torch.bfloat16,
        "weight_shape": torch.int64,
    }
    assert "lm_head.weight" not in tensors

"""What is refused of checkpoints that other software quantised, by its name."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from agentrt.base.config import EngineConfig
from agentrt.base.errors import EngineUnavailable, ModelInvalid
from agentrt.engine.models.checkpoint import tensors
from agentrt.engine.models.load_plan import plan_load
from tests.engine.published_formats import compressed_fp8, rewrite, written
from tests.engine.published_models import (
    awq_config,
    bnb_config,
    compressed_config,
    fp8_config,
    gptq_config,
    logits_of,
)

CPU = torch.device("cpu")


def refusal(path, **settings):
    with pytest.raises((ModelInvalid, EngineUnavailable)) as caught:
        plan_load(EngineConfig(path, self_check="never", **settings))
    assert caught.value.hint
    return caught.value.message


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (gptq_config(3, 32), "quantization_config.bits to 3, and what is read here is 4, 8"),
        (gptq_config(4, 0, group_size=0), "quantization_config.group_size to 0"),
        (gptq_config(4, 32, checkpoint_format="marlin"), "checkpoint_format to 'marlin'"),
        (gptq_config(4, 32, dynamic={"q": {"bits": 3}}), "dynamic.q.bits to 3, and what is read"),
        (gptq_config(4, 32, dynamic={"q": {"group_size": 0}}), "dynamic.q.group_size to 0"),
        (gptq_config(4, 32, dynamic={"q": {"adapter": 1}}), "dynamic.q.adapter to 1, which is not"),
        (gptq_config(4, 32, dynamic={"q": 8}), "dynamic.q to 8, which is no object"),
        (gptq_config(4, 32, turned=True), "turned to True, which is not known here"),
        (gptq_config(4, 32, pack_dtype="int64"), "pack_dtype to 'int64'"),
        (compressed_config(3, 32), "config_groups.group_0.weights.num_bits to 3"),
        (compressed_config(4, 32, type="float"), "weights.type to 'float'"),
        (compressed_config(4, 32, format="marlin-24"), "'marlin-24' is no pack-, int- or float-"),
        (compressed_config(4, 32, kv_cache_scheme={"num_bits": 8}), "kv_cache_scheme to {'num"),
        (compressed_config(4, 32, quantization_status="frozen"), "quantization_status to"),
        (compressed_config(4, 32, transform_config={"R1": 1}), "transform_config to {'R1': 1}"),
        (compressed_config(4, 32, turned=1), "turned to 1, which is not known here"),
        (awq_config(64, bits=8), "quantization_config.bits to 8"),
        (awq_config(64, version="gemv"), "version to 'gemv', and what is read here is gemm"),
        (awq_config(64, zero_point=False), "zero_point to False"),
        (fp8_config(128, 128, fmt="e5m2"), "fmt to 'e5m2'"),
        (fp8_config(128, 128, weight_block_size=None), "weight_block_size to None"),
        (fp8_config(128, 128, weight_block_size=[0, "a"]), "weight_block_size to [0, 'a']"),
        (fp8_config(128, 128, expert_dtype="fp4"), "expert_dtype to 'fp4'"),
        (fp8_config(128, 128, turned=1), "turned to 1, which is not known here"),
        (bnb_config(4, bnb_4bit_quant_type="int4"), "bnb_4bit_quant_type to 'int4'"),
        (bnb_config(8, llm_int8_has_fp16_weight=True), "llm_int8_has_fp16_weight to True"),
        (bnb_config(16), "load_in_4bit to False, and nothing says how many bits"),
        (compressed_fp8("channel", symmetric=False), "weights.symmetric to False"),
        (compressed_fp8("block"), "weights.block_structure to None"),
        (compressed_fp8("channel", num_bits=4), "weights.num_bits to 4"),
        (
            compressed_config(4, 32, sparsity_config={"format": "sparse-bitmask"}),
            "sparsity_config.format to 'sparse-bitmask'",
        ),
        (
            compressed_config(4, 32, input_activations={"num_bits": 4}),
            "input_activations.num_bits to 4",
        ),
        (compressed_config(4, 32, config_groups={}), "config_groups"),
    ],
)
def test_settings_that_are_not_read_are_refused_by_name(settings, said, plain):
    rewrite(plain, settings)
    message = refusal(plain)
    assert said in message
    assert message.startswith(str(plain / "config.json"))


def change(name, make):
    def apply(weights):
        weights[name] = make(weights[name])

    return apply


def drop(name):
    return lambda weights: weights.pop(name)


@pytest.mark.usefixtures("native_kernels")
@pytest.mark.parametrize(
    ("name", "edit", "said"),
    [
        ("gptq int4", drop("model.layers.0.mlp.up_proj.qzeros"), "lacks qzeros"),
        (
            "gptq int4",
            change("model.layers.0.mlp.down_proj.qzeros", lambda one: one + 1),
            "has zeros of its own, and its config sets sym to true",
        ),
        ("gptq int4", drop("model.layers.0.mlp.up_proj.qweight"), "it lacks model.layers.0.mlp.up"),
        (
            "gptq int4 reordered",
            change("model.layers.0.mlp.up_proj.g_idx", lambda one: one.flip(0)),
            "orders its inputs otherwise than model.layers.0.mlp.",
        ),
        (
            "gptq int4",
            change("model.layers.0.mlp.down_proj.g_idx", torch.zeros_like),
            "has inputs in groups that are not of 32 each",
        ),
        (
            "gptq int4",
            change("model.layers.0.mlp.down_proj.scales", lambda one: one[1:].contiguous()),
            "has scales (5, 128)",
        ),
        (
            "gptq int4",
            change("model.layers.0.mlp.down_proj.qzeros", lambda one: one[:, 1:].contiguous()),
            "has qzeros (6, 15)",
        ),
        (
            "compressed int4 in groups",
            change("model.layers.0.mlp.down_proj.weight_packed", lambda one: one.float()),
            "has weight_packed (128, 24) in torch.float32",
        ),
        (
            "compressed int4 in groups",
            change("model.layers.0.mlp.down_proj.weight_shape", lambda one: one - 1),
            "is written as none of config_groups says: weight_packed (128, 24), weight_scale",
        ),
        (
            "compressed int4 in groups",
            change("model.layers.0.mlp.down_proj.weight_scale", lambda one: one[:, 1:].clone()),
            "is written as none of config_groups says: weight_packed",
        ),
        (
            "compressed int4 with zeros",
            change("model.layers.0.mlp.down_proj.weight_zero_point", lambda one: one[:9].clone()),
            "has zeros (9, 3)",
        ),
        (
            "awq",
            change("model.layers.0.mlp.down_proj.qzeros", lambda one: one[1:].clone()),
            "has qzeros (2, 16)",
        ),
        (
            "fp8 blocks",
            change(
                "model.layers.0.mlp.down_proj.weight",
                lambda one: (one.view(torch.uint8) | 127).view(torch.float8_e4m3fn),
            ),
            "holds values that are no numbers",
        ),
        (
            "fp8 blocks",
            change("model.layers.0.mlp.down_proj.weight_scale_inv", lambda one: one[:, :1].clone()),
            "has factors of (1, 1) blocks, not (1, 2)",
        ),
        (
            "nf4",
            change("model.layers.0.mlp.down_proj.weight.absmax", lambda one: one[1:].clone()),
            "of 12288 bytes and 383 factors",
        ),
        (
            "nf4",
            change(
                "model.layers.0.mlp.down_proj.weight.quant_state.bitsandbytes__nf4",
                lambda one: one[1:].clone(),
            ),
            "has a quant_state that cannot be read",
        ),
        (
            "nf4 nested",
            drop("model.layers.0.mlp.down_proj.weight.nested_absmax"),
            "lacks weight.nested_absmax",
        ),
        (
            "bitsandbytes int8",
            change("model.layers.0.mlp.down_proj.weight_format", lambda one: one + 2),
            "is not laid out by rows",
        ),
        (
            "compressed int4 in groups",
            drop("model.layers.0.mlp.down_proj.weight_packed"),
            "is written as none of config_groups says: weight_scale (128, 6), weight_shape (2,)",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_refused_by_name(name, edit, said, plain):
    path = written(name, plain)
    weights = load_file(path / "model.safetensors")
    edit(weights)
    save_file(weights, path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelInvalid) as caught:
        logits_of(path)
    assert said in caught.value.message
    assert caught.value.message.startswith(str(path))
    assert caught.value.hint


def test_partly_quantised_neighbours_are_refused(plain):
    path = written("gptq int4", plain)
    weights = load_file(path / "model.safetensors")
    module = "model.layers.0.self_attn.k_proj"
    weights = {name: one for name, one in weights.items() if not name.startswith(module)}
    weights[f"{module}.weight"] = load_file(plain / "model.safetensors")[f"{module}.weight"]
    bias = f"{module}.bias"
    weights[bias] = load_file(plain / "model.safetensors")[bias]
    save_file(weights, path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelInvalid, match="k_proj plain, and both are one product"):
        dict(tensors(path, torch.float32, CPU))


@pytest.mark.usefixtures("native_kernels")
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kernels": "torch"}, "no weights in GPTQ int4 run here: they take the cpu or triton"),
        ({"weights": "int4"}, "is in GPTQ int4 already"),
    ],
)
def test_where_nothing_multiplies_by_them_they_are_refused(settings, said, plain):
    assert said in refusal(written("gptq int4", plain), **settings)


@pytest.mark.usefixtures("native_kernels")
@pytest.mark.parametrize("name", ["nf4", "fp8 blocks"])
def test_values_of_tables_are_not_multiplied_by_bytes(name, plain):
    message = refusal(written(name, plain), activations="int8")
    assert "are no integers that bytes could multiply" in message

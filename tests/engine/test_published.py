"""Checkpoints that other software quantised: their values, and a model that computes with them."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from agentrt.base.config import EngineConfig
from agentrt.base.errors import EngineUnavailable, ModelInvalid
from agentrt.engine.models.checkpoint import tensor_shapes, tensors
from agentrt.engine.models.load_plan import plan_load
from agentrt.engine.models.packed_weight import PackedWeight
from agentrt_kernels import load
from agentrt_kernels.contract import KernelsUnavailable
from agentrt_kernels.cpu.kernel_set import CpuKernels
from tests.engine.gguf_models import greedy_ids
from tests.engine.published_models import (
    awq,
    awq_config,
    bnb_config,
    compressed,
    compressed_config,
    fp8,
    fp8_config,
    gptq,
    gptq_config,
    int8_rows,
    logits_of,
    nf4,
    write_published,
)

CPU = torch.device("cpu")
WIDE = {"hidden_size": 128, "intermediate_size": 192}
ROWS = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True}
INT8 = {"format": "int-quantized", "input_activations": ROWS}


def compressed_fp8(strategy, group=0, **more):
    """A config of compressed-tensors in FP8."""
    settings = compressed_config(8, group, type="float", format="float-quantized")
    settings["config_groups"]["group_0"]["weights"] |= {"strategy": strategy, **more}
    return settings


FORMATS = {
    "compressed int4 in groups": (compressed(4, 32), compressed_config(4, 32), 4),
    "compressed int4 in rows": (compressed(4, 0), compressed_config(4, 0), 4),
    "compressed int4 with zeros": (
        compressed(4, 64, asymmetric=True),
        compressed_config(4, 64, symmetric=False),
        4,
    ),
    "compressed int4 reordered": (
        compressed(4, 32, shuffled=True),
        compressed_config(4, 32, actorder="group"),
        4,
    ),
    "compressed int8 in words": (
        compressed(8, 64, asymmetric=True),
        compressed_config(8, 64, symmetric=False),
        8,
    ),
    "compressed int8 in rows": (
        compressed(8, 0, packed=False),
        compressed_config(8, 0, **INT8),
        8,
    ),
    "compressed int8 with zeros": (
        compressed(8, 0, packed=False, asymmetric=True),
        compressed_config(8, 0, symmetric=False, **INT8),
        8,
    ),
    "gptq int4": (gptq(4, 32), gptq_config(4, 32), 4),
    "gptq int4 with zeros": (gptq(4, 64, asymmetric=True), gptq_config(4, 64, sym=False), 4),
    "gptq int4 reordered": (
        gptq(4, 32, asymmetric=True, shuffled=True),
        gptq_config(4, 32, sym=False, desc_act=True),
        4,
    ),
    "gptq int4 of version 2": (
        gptq(4, 32, version=2, asymmetric=True),
        gptq_config(4, 32, sym=False, checkpoint_format="gptq_v2"),
        4,
    ),
    **{
        f"gptq int{bits} of gptqmodel": (
            gptq(bits, 32, asymmetric=True, borrows=True),
            gptq_config(bits, 32, sym=False, meta={"quantizer": ["gptqmodel:7.7.0"]}),
            bits,
        )
        for bits in (4, 8)
    },
    "gptq int8": (gptq(8, 0), gptq_config(8, 0), 8),
    "gptq int8 reordered": (
        gptq(8, 32, asymmetric=True, shuffled=True),
        gptq_config(8, 32, sym=False, desc_act=True),
        8,
    ),
    "awq": (awq(64), awq_config(64), 4),
    "fp8 blocks": (fp8("weight_scale_inv", 128, 128), fp8_config(128, 128), 8),
    "fp8 small blocks": (fp8("weight_scale_inv", 48, 40), fp8_config(48, 40), 8),
    "compressed fp8 in rows": (fp8("weight_scale", 1, 0), compressed_fp8("channel"), 8),
    "compressed fp8 in blocks": (
        fp8("weight_scale", 128, 128),
        compressed_fp8("block", block_structure=[128, 128]),
        8,
    ),
    "compressed fp8 in groups": (fp8("weight_scale", 1, 32), compressed_fp8("group", 32), 8),
    "nf4": (nf4(nested=False), bnb_config(4), 4),
    "nf4 nested": (nf4(nested=True), bnb_config(4, bnb_4bit_use_double_quant=True), 4),
    "bitsandbytes int8": (int8_rows(), bnb_config(8), 8),
}
BYTES = {4: (0.5, 0.75), 8: (1.0, 1.25)}
"""Bytes of a weight: at least its code, at most scales and zeros for 32 inputs and an order."""


@pytest.fixture
def _native():
    try:
        load("cpu")
    except KernelsUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def plain(engine, tmp_path):
    folder = tmp_path / "plain"
    engine.save_model("qwen2", folder, **WIDE)
    return folder


def written(name, plain):
    write, settings, _ = FORMATS[name]
    return write_published(plain.parent / "published", plain, settings, write)


def refusal(path, **settings):
    with pytest.raises((ModelInvalid, EngineUnavailable)) as caught:
        plan_load(EngineConfig(path, self_check="never", **settings))
    assert caught.value.hint
    return caught.value.message


@pytest.mark.parametrize("name", FORMATS)
def test_values_are_those_of_the_format(name, plain):
    path, bits = written(name, plain), FORMATS[name][2]
    expected = load_file(plain / "model.safetensors")
    assert tensor_shapes(path) == tensor_shapes(plain)
    found = dict(tensors(path, torch.float32, CPU))
    assert found.keys() == expected.keys()
    for weight, own in found.items():
        assert isinstance(own, PackedWeight) == weight.endswith("proj.weight"), weight
        if isinstance(own, PackedWeight):
            least, most = BYTES[bits]
            assert least * own.numel() <= own.resident_bytes <= most * own.numel()
            own = own.dequantize()
        assert torch.equal(own, expected[weight]), weight


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.usefixtures("_native")
def test_the_model_computes_what_its_values_say(name, plain):
    path, bits = written(name, plain), FORMATS[name][2]
    expected, _ = logits_of(plain)
    found, model = logits_of(path)
    assert (found - expected).norm() <= 1e-2 * expected.norm()
    values = sum(
        one.numel()
        for one in dict(tensors(path, torch.float32, CPU)).values()
        if isinstance(one, PackedWeight)
    )
    least, most = BYTES[bits]
    assert least * values <= model.network.quantised_bytes <= most * values
    assert f"int{bits}" in model.report.linear or "f" in model.report.linear.lower()
    assert model.report.self_check.startswith("trusted")


@pytest.mark.usefixtures("_native")
@pytest.mark.parametrize("name", ["compressed int4 in groups", "gptq int4 reordered", "nf4"])
def test_it_serves_greedy_tokens_in_batches_and_alone(name, plain, engine):
    path = written(name, plain)
    prompts = [[(3 * at) % 250 for at in range(length)] for length in (30, 4, 17)]

    def served(chosen):
        return greedy_ids(path, engine, chosen, 10)

    assert served(prompts) == [served([prompt])[0] for prompt in prompts]


@pytest.mark.usefixtures("_native")
@pytest.mark.parametrize("name", ["compressed int4 with zeros", "gptq int8 reordered"])
def test_rows_of_eight_bits_multiply_them(name, plain):
    if not CpuKernels().has_byte_products:
        pytest.skip("the processor has no dot products of bytes")
    path = written(name, plain)
    expected, _ = logits_of(path)
    found, model = logits_of(path, activations="int8")
    assert (found - expected).norm() <= 6e-2 * expected.norm()
    assert model.report.linear.endswith(" by int8")


@pytest.mark.usefixtures("_native")
def test_matrices_of_one_product_may_differ_in_form(plain):
    path = written("compressed int4 in groups", plain)
    weights = load_file(path / "model.safetensors")
    exact = load_file(plain / "model.safetensors")
    name = "model.layers.1.self_attn.v_proj"
    for part in ("weight_packed", "weight_scale", "weight_shape"):
        del weights[f"{name}.{part}"]
    values = torch.randint(-128, 128, exact[f"{name}.weight"].shape, dtype=torch.int8)
    scales = torch.full((len(values), 1), 1 / 256)
    weights |= {f"{name}.weight": values, f"{name}.weight_scale": scales}
    exact[f"{name}.weight"] = values.float() * scales
    save_file(weights, path / "model.safetensors", {"format": "pt"})
    save_file(exact, plain / "model.safetensors", {"format": "pt"})
    settings = compressed_config(4, 32, format="mixed-precision")
    other = compressed_config(8, 0)["config_groups"]["group_0"]
    settings["config_groups"]["group_0"]["format"] = "pack-quantized"
    settings["config_groups"]["group_1"] = {
        **other,
        "format": "int-quantized",
        "targets": ["re:.*layers.1.self_attn.v_proj$"],
    }
    rewrite(path, settings)
    found, model = logits_of(path)
    expected, _ = logits_of(plain)
    assert (found - expected).norm() <= 1e-2 * expected.norm()
    assert model.report.linear == "compressed-tensors int4 and int8"


def rewrite(path, settings):
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "quantization_config": settings}))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (gptq_config(3, 32), "quantization_config.bits to 3, and what is read here is 4, 8"),
        (gptq_config(4, 0, group_size=0), "quantization_config.group_size to 0"),
        (gptq_config(4, 32, checkpoint_format="marlin"), "checkpoint_format to 'marlin'"),
        (gptq_config(4, 32, dynamic={"+:q": {"bits": 8}}), "dynamic to {'+:q': {'bits': 8}}"),
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


@pytest.mark.usefixtures("_native")
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


@pytest.mark.usefixtures("_native")
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kernels": "torch"}, "no weights in GPTQ int4 run here: they take the cpu kernels"),
        ({"weights": "int4"}, "is in GPTQ int4 already"),
    ],
)
def test_where_nothing_multiplies_by_them_they_are_refused(settings, said, plain):
    assert said in refusal(written("gptq int4", plain), **settings)


@pytest.mark.usefixtures("_native")
@pytest.mark.parametrize("name", ["nf4", "fp8 blocks"])
def test_values_of_tables_are_not_multiplied_by_bytes(name, plain):
    message = refusal(written(name, plain), activations="int8")
    assert "are no integers that bytes could multiply" in message


@pytest.mark.usefixtures("_native")
def test_tensors_of_a_matrix_may_lie_in_several_files(plain):
    path = written("gptq int4 reordered", plain)
    weights = load_file(path / "model.safetensors")
    expected, _ = logits_of(path)
    (path / "model.safetensors").unlink()
    names = sorted(weights)
    places = {name: f"{at % 2}.safetensors" for at, name in enumerate(names)}
    for file in sorted(set(places.values())):
        part = {name: weights[name] for name in names if places[name] == file}
        save_file(part, path / file, {"format": "pt"})
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    assert torch.equal(logits_of(path)[0], expected)


@pytest.mark.usefixtures("_native")
@pytest.mark.parametrize(
    "name", ["compressed int4 in groups", "gptq int4 reordered", "compressed fp8 in rows"]
)
def test_experts_stay_quantised(name, engine, tmp_path):
    engine.save_model("qwen3_moe", tmp_path / "plain", hidden_size=64, moe_intermediate_size=32)
    path = written(name, tmp_path / "plain")
    expected, _ = logits_of(tmp_path / "plain")
    found, model = logits_of(path)
    assert (found - expected).norm() <= 1e-2 * expected.norm()
    assert model.network.quantised_bytes > 0

"""Checkpoints that other software quantised: their values, and a model that computes with them."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from agentrt.engine.models.checkpoint import tensor_shapes, tensors
from agentrt.engine.models.packed_weight import PackedWeight
from agentrt_kernels.cpu.kernel_set import CpuKernels
from tests.engine.gguf_models import greedy_ids
from tests.engine.published_formats import FORMATS, WIDE, rewrite, written
from tests.engine.published_models import (
    compressed_config,
    gptq,
    gptq_config,
    logits_of,
    write_published,
)

CPU = torch.device("cpu")
BYTES = {4: (0.5, 0.75), 8: (1.0, 1.25)}
"""Bytes of a weight: at least its code, at most scales and zeros for 32 inputs and an order."""


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
@pytest.mark.usefixtures("native_kernels")
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


@pytest.mark.usefixtures("native_kernels")
@pytest.mark.parametrize("name", ["compressed int4 in groups", "gptq int4 reordered", "nf4"])
def test_it_serves_greedy_tokens_in_batches_and_alone(name, plain, engine):
    path = written(name, plain)
    prompts = [[(3 * at) % 250 for at in range(length)] for length in (30, 4, 17)]

    def served(chosen):
        return greedy_ids(path, engine, chosen, 10)

    assert served(prompts) == [served([prompt])[0] for prompt in prompts]


@pytest.mark.usefixtures("native_kernels")
@pytest.mark.parametrize("name", ["compressed int4 with zeros", "gptq int8 reordered"])
def test_rows_of_eight_bits_multiply_them(name, plain):
    if not CpuKernels().has_byte_products:
        pytest.skip("the processor has no dot products of bytes")
    path = written(name, plain)
    expected, _ = logits_of(path)
    found, model = logits_of(path, activations="int8")
    assert (found - expected).norm() <= 6e-2 * expected.norm()
    assert model.report.linear.endswith(" by int8")


@pytest.mark.usefixtures("native_kernels")
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


@pytest.mark.usefixtures("native_kernels")
def test_modules_of_gptq_may_differ_in_bits_and_groups(plain):
    """By the tensors, not by the patterns of `dynamic`."""

    def write(draws, outputs, inputs):
        some = gptq(8, 64, asymmetric=True) if inputs == WIDE["intermediate_size"] else gptq(4, 32)
        return some(draws, outputs, inputs)

    down = {"bits": 8, "group_size": 64, "sym": False}
    settings = gptq_config(4, 32, dynamic={"+:.*down.*": down, "-:.*head.*": {}})
    path = write_published(plain.parent / "published", plain, settings, write)
    expected = load_file(plain / "model.safetensors")
    assert tensor_shapes(path) == tensor_shapes(plain)
    for weight, own in tensors(path, torch.float32, CPU):
        if isinstance(own, PackedWeight):
            is_down = "down_proj" in weight
            assert (own.bits, own.group) == ((8, 64) if is_down else (4, 32))
            assert torch.equal(own.dequantize(), expected[weight]), weight
    found, model = logits_of(path)
    exact, _ = logits_of(plain)
    assert (found - exact).norm() <= 1e-2 * exact.norm()
    assert model.report.linear == "GPTQ int4 and int8"


@pytest.mark.usefixtures("native_kernels")
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


@pytest.mark.usefixtures("native_kernels")
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

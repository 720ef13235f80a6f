"""AWQ: scales that lower the error of the outputs, and that change nothing but rounding."""

from __future__ import annotations

import pytest
import torch

from agentrt.engine.models.quantisation import EMBEDDING
from agentrt.engine.models.quantiser.awq import input_scales
from agentrt.engine.models.quantiser.awq_folding import AwqLayer, divided
from agentrt.engine.models.quantiser.input_statistics import InputStatistics, output_error
from agentrt.engine.models.quantiser.layer_matrices import matrices_of
from agentrt.engine.models.quantiser.layer_runner import LAYER, LayerRunner
from agentrt.engine.models.quantiser.quantisable_model import modules_of, open_model
from agentrt.engine.models.quantiser.rounding import RoundingScheme, round_to_nearest
from agentrt.engine.models.quantiser.source_checkpoint import SourceCheckpoint
from tests.engine.quantiser.test_layer_runner import SEQUENCES, new_statistics

SCHEME = RoundingScheme(4, 8, torch.bfloat16)
EVERYWHERE = {"norm", "inner_norm", "values", "up"}
FOLDED = {
    **dict.fromkeys(("llama", "qwen2", "qwen3", "phi3", "gemma2", "glm4", "granite"), EVERYWHERE),
    "olmo2": {"values", "up"},  # what a norm behind makes is added first
    **dict.fromkeys(("cohere", "cohere2"), EVERYWHERE - {"inner_norm"}),  # one norm for both
}


def layer_of(source, number, dtype):
    """A layer's weights, stored as real checkpoints are, with biases that are no zeros."""
    prefix = f"model.layers.{number}."
    random = torch.Generator().manual_seed(number)
    weights = {}
    for name in source.names:
        if name.startswith(prefix):
            tensor = source.tensor(name).float()
            if name.endswith("bias"):
                tensor = torch.randn(tensor.shape, generator=random)
            weights[name] = tensor.to(dtype)
    return weights, prefix


def alone(weights, prefix):
    return {LAYER + name.removeprefix(prefix): tensor.float() for name, tensor in weights.items()}


@pytest.mark.parametrize("kind", sorted(FOLDED))
def test_a_scaled_layer_computes_the_same(kind, model_dir):
    model = open_model(model_dir(kind))
    runner, shape = LayerRunner(model.plan, model.shape), model.shape
    with SourceCheckpoint(model_dir(kind)) as source:
        states = runner.embed(source.tensor(EMBEDDING), SEQUENCES)
        weights, prefix = layer_of(source, 1, torch.bfloat16)
    statistics = new_statistics(shape)
    before = runner.run(1, alone(weights, prefix), states, statistics).values
    schemes = dict.fromkeys(modules_of(shape), SCHEME)
    layer = AwqLayer(shape, prefix, matrices_of(shape, 1), weights, statistics, schemes)
    scales = layer.fold()
    parts = layer.matrices
    where = {"norm": parts.qkv, "inner_norm": parts.gate_up, "values": parts.out, "up": parts.down}
    found = {place for place, modules in where.items() if modules[0] in scales}
    expected = FOLDED[kind] | ({"inner_norm"} if shape.parallel else set())
    assert found == expected
    ratios = [float(one.max() / one.min()) for one in scales.values()]
    assert max(ratios) > 1.2, ratios
    after = runner.run(1, alone(layer.weights, prefix), states).values
    assert torch.allclose(after, before, atol=1e-4 * float(before.abs().max()), rtol=1e-4)
    for name, tensor in layer.weights.items():
        if tensor.dim() == 1:
            assert tensor.dtype is torch.bfloat16, name


def test_what_stays_plain_is_not_scaled(model_dir):
    """Neither a matrix that is kept, nor a norm or a matrix before it."""
    model = open_model(model_dir("llama"))
    runner, shape = LayerRunner(model.plan, model.shape), model.shape
    with SourceCheckpoint(model_dir("llama")) as source:
        states = runner.embed(source.tensor(EMBEDDING), SEQUENCES)
        weights, prefix = layer_of(source, 0, torch.float32)
    statistics = new_statistics(shape)
    runner.run(0, alone(weights, prefix), states, statistics)
    parts = matrices_of(shape, 0)
    schemes = dict.fromkeys((*parts.out, *parts.gate_up), SCHEME)
    layer = AwqLayer(shape, prefix, parts, dict(weights), statistics, schemes)
    assert set(layer.fold()) == set(parts.gate_up)
    changed = {name for name, one in weights.items() if not torch.equal(one, layer.weights[name])}
    assert changed == {
        f"{prefix}post_attention_layernorm.weight",
        *(f"{module}.weight" for module in parts.gate_up),
    }


def test_scales_lower_the_error_of_outputs():
    """A few inputs are much larger than the rest, as in real models."""
    source = torch.Generator().manual_seed(4)
    weight = torch.randn(64, 128, generator=source) * 0.05
    x = torch.randn(500, 128, generator=source)
    x[:, ::64] *= 20
    statistics = InputStatistics(128)
    statistics.add(x[:200])
    statistics.add(x[200:])
    assert torch.allclose(statistics.hessian, x.t() @ x / 500, rtol=1e-4, atol=1e-3)
    scheme = RoundingScheme(4, 128, torch.float32)
    scales = input_scales(weight, statistics, scheme)
    moments = statistics.hessian.diagonal() / scales.square()
    made = round_to_nearest(weight * scales, scheme, moments).dequantize() / scales
    plain = round_to_nearest(weight, scheme).dequantize()
    error = output_error(made - weight, statistics.hessian)
    assert error == pytest.approx(float((x @ (made - weight).t()).square().sum() / 500), rel=1e-3)
    assert error < 0.4 * output_error(plain - weight, statistics.hessian)


def test_scales_of_inputs_that_are_alike_stay_near_one():
    weight = torch.ones(4, 32)
    statistics = InputStatistics(32)
    statistics.add(torch.ones(8, 32))
    scales = input_scales(weight, statistics, RoundingScheme(4, 32, torch.float32))
    assert torch.equal(scales, torch.ones(32))


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_a_rounded_quotient_gives_its_vector_back(offset):
    source = torch.Generator().manual_seed(9)
    vector = (0.3 * torch.randn(500, generator=source)).bfloat16()
    vector[3] = -offset  # nothing to divide
    wanted = torch.rand(500, generator=source) * 3 + 0.2
    quotient, scales = divided(vector, wanted, offset)
    assert quotient.dtype is torch.bfloat16
    assert scales[3] == 1.0
    assert quotient[3] == vector[3]
    assert torch.allclose((quotient.float() + offset) * scales, vector.float() + offset, rtol=1e-6)
    others = torch.arange(500) != 3
    near = (scales / wanted)[others]
    assert ((near - 1).abs() < 0.02).float().mean() > 0.95, "close to what was wanted"

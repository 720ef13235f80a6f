"""Quantised weights: how they are rounded, what stays plain, what computes, and what is refused."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt import embedded
from agentrt.base.config import EngineConfig
from agentrt.base.errors import EngineUnavailable, UsageError
from agentrt.engine.models.load_plan import plan_load
from agentrt.engine.models.loader import load_model
from agentrt.engine.models.native.build import build_network, read_weights, with_rows_of_bytes
from agentrt.engine.models.native.self_check import network_logits
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.packed_weight import PackedWeight
from agentrt.engine.models.quantisation import quantised
from agentrt.engine.models.report import model_report
from agentrt_kernels.cpu.kernel_set import CpuKernels

quick = settings(max_examples=40, deadline=None, derandomize=True, database=None)
EXPERTS = ["mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "gpt_oss"]
FORMATS = [("int8", 0), ("int8", 32), ("int4", 0), ("int4", 128)]


@pytest.fixture(autouse=True)
def _native(model_dir):
    report = model_report(EngineConfig(model_dir("llama"), self_check="never"))
    if report.kernels != "cpu":
        pytest.skip(report.kernels_reason)


@quick
@given(
    rows=st.integers(1, 40),
    inputs=st.integers(1, 150),
    bits=st.sampled_from([4, 8]),
    group=st.sampled_from([0, 32, 128]),
    size=st.sampled_from([1e-7, 0.02, 1.0]),
    seed=st.integers(0, 5),
)
def test_values_are_rounded_to_the_nearest_step(rows, inputs, bits, group, size, seed):
    inputs *= 8 // bits
    weight = torch.randn(rows, inputs, generator=torch.Generator().manual_seed(seed)) * size
    weight[0] = 0
    made = quantised(weight, bits, group)
    assert made.shape == weight.shape
    assert made.scales.shape[1] == -(-inputs // (group or inputs))
    step = made.scales.abs().repeat_interleave(group or inputs, 1)[:, :inputs]
    error = (made.dequantize() - weight).abs()
    if bits == 8:
        assert (error <= 0.5001 * step).all()
    else:  # the largest of a group may lie past the last step
        assert (error <= 0.5001 * step).float().mean() > 0.9
    assert not made.dequantize()[0].any()


def test_the_scale_of_four_bits_is_better_than_that_of_the_largest_value():
    weight = torch.randn(64, 256, generator=torch.Generator().manual_seed(1))
    made = quantised(weight, 4, 32).dequantize()
    groups = weight.view(64, 8, 32)
    largest = groups.gather(-1, groups.abs().argmax(-1, keepdim=True))
    scale = largest / -8
    plain = ((groups / scale).round().clamp(-8, 7) * scale).view_as(weight)
    assert (made - weight).norm() < 0.97 * (plain - weight).norm()


def planned(path, **fields):
    """A plan, and the shape of its decoder."""
    plan = plan_load(EngineConfig(path, self_check="never", **fields))
    assert isinstance(plan.shape, DecoderShape)
    return plan, plan.shape


def read(plan, shape):
    path = plan.config.model_path
    return read_weights(shape, path, plan.dtype, plan.device, plan.quantisation)


def logits_of(plan, shape, weights):
    network = build_network(shape, weights, plan.kernels.kernels, plan.linear_backend)
    loaded = load_model(dataclasses.replace(plan.config, weights="checkpoint", weight_group=0))
    return network_logits(network, loaded.layout, shape.heads, shape.vocabulary)


@pytest.mark.parametrize(("weights", "group"), FORMATS)
@pytest.mark.parametrize(
    "kind", ["llama", "qwen2", "olmo2", "phi3", "gemma2", "embedded", *EXPERTS]
)
def test_logits_are_those_of_the_rounded_matrices(kind, weights, group, model_dir):
    path = embedded.path() if kind == "embedded" else model_dir(kind)
    plan, shape = planned(path, weights=weights, weight_group=group)
    packed, rounded = read(plan, shape), read(plan, shape)
    assert any(isinstance(one, PackedWeight) for one in packed.values())
    for name, one in rounded.items():
        if isinstance(one, PackedWeight):
            rounded[name] = one.dequantize().to(plan.dtype)
    found, expected = logits_of(plan, shape, packed), logits_of(plan, shape, rounded)
    assert (found - expected).norm() <= 1e-2 * expected.norm()


@pytest.mark.parametrize("weights", ["int8", "int4"])
@pytest.mark.parametrize("kind", ["qwen2", "gemma2", "embedded"])
def test_rows_of_eight_bits_cost_little(kind, weights, model_dir):
    """All matrices of layers take them, the head does not."""
    path = embedded.path() if kind == "embedded" else model_dir(kind)
    plan, shape = planned(path, weights=weights)
    config, sizes = plan.config, (shape.heads, shape.vocabulary)
    if not CpuKernels().has_byte_products:
        pytest.skip("the processor has no dot products of bytes")
    exact = load_model(config)
    loaded = load_model(dataclasses.replace(config, activations="int8"))
    expected = network_logits(exact.network, exact.layout, *sizes)
    error = (network_logits(loaded.network, loaded.layout, *sizes) - expected).norm()
    assert 1e-4 * expected.norm() < error <= 6e-2 * expected.norm()
    assert loaded.report.linear == f"{weights} by int8"


def test_the_head_multiplies_rows_of_sixteen_bits(model_dir):
    taken = with_rows_of_bytes(read(*planned(model_dir("llama"), weights="int8")))
    bits = {name: one.row_bits for name, one in taken.items() if isinstance(one, PackedWeight)}
    assert bits.pop("lm_head.weight") == 16
    assert set(bits.values()) == {8}


def test_plain_matrices_multiply_no_rows_of_eight_bits(model_dir):
    config = EngineConfig(model_dir("llama"), activations="int8", self_check="never")
    with pytest.raises(EngineUnavailable, match="are not quantised") as caught:
        load_model(config)
    assert "--activations" in caught.value.hint


def test_matrices_alone_are_quantised(model_dir):
    weights = read(*planned(model_dir("qwen2"), weights="int4"))
    bits = {name: one.bits for name, one in weights.items() if isinstance(one, PackedWeight)}
    assert bits.pop("lm_head.weight") == 8
    assert set(bits.values()) == {4}
    plain = weights.keys() - bits.keys() - {"lm_head.weight"}
    assert all(name.endswith(("norm.weight", ".bias", "embed_tokens.weight")) for name in plain)


@pytest.mark.parametrize("kind", EXPERTS)
def test_experts_are_quantised_and_their_routers_are_not(kind, model_dir):
    weights = read(*planned(model_dir(kind), weights="int4"))
    experts = {name for name in weights if ".experts." in name and not name.endswith("_bias")}
    assert experts
    for name, one in weights.items():
        is_router = name.endswith((".gate.weight", ".router.weight", "expert_gate.weight"))
        if name in experts or "shared_expert." in name:
            assert isinstance(one, PackedWeight)
            assert one.bits == 4
        elif is_router or name.endswith("bias"):
            assert not isinstance(one, PackedWeight)


@pytest.mark.parametrize("kind", EXPERTS)
@pytest.mark.parametrize(("weights", "least", "most"), [("int8", 1.0, 1.3), ("int4", 0.5, 0.95)])
def test_experts_stay_in_their_bits(kind, weights, least, most, model_dir):
    """The matrices are so small here that scales and padding weigh much."""
    plan, shape = planned(model_dir(kind), weights=weights)
    taken = read(plan, shape)
    values = sum(one.numel() for one in taken.values() if isinstance(one, PackedWeight))
    loaded = load_model(plan.config)
    assert least * values <= loaded.network.quantised_bytes <= most * values
    assert loaded.parameters == load_model(EngineConfig(model_dir(kind))).parameters
    rest = sum(one.nbytes for one in taken.values() if isinstance(one, torch.Tensor))
    kept = loaded.network.quantised_bytes + rest
    assert loaded.report.weight_bytes == pytest.approx(kept, rel=0.35)


@pytest.mark.parametrize("head", ["checkpoint", "int4"])
def test_the_head_has_its_own_format(head, model_dir):
    weights = read(*planned(model_dir("llama"), weights="int8", head_weights=head))
    found = weights.get("lm_head.weight")
    if head == "int4":
        assert isinstance(found, PackedWeight)
        assert found.bits == 4
    else:
        assert not isinstance(found, PackedWeight)


@pytest.mark.parametrize(("weights", "least", "most"), [("int8", 1.0, 1.05), ("int4", 0.5, 0.68)])
def test_matrices_stay_in_their_bits(weights, least, most):
    """Padding and scales are the rest; nothing is kept plain beside the codes."""
    plan, shape = planned(embedded.path(), weights=weights)
    taken = read(plan, shape)
    values = sum(one.numel() for one in taken.values() if isinstance(one, PackedWeight))
    loaded, plain = load_model(plan.config), load_model(EngineConfig(embedded.path()))
    kept = loaded.network.quantised_bytes
    assert least * values <= kept <= most * values
    assert plain.network.quantised_bytes == 0
    assert loaded.parameters == plain.parameters
    rest = sum(one.nbytes for one in taken.values() if isinstance(one, torch.Tensor))
    assert loaded.report.weight_bytes == pytest.approx(kept + rest, rel=0.02)


def test_the_report_says_which_weights_run():
    plain, eight, four = (
        model_report(EngineConfig(embedded.path(), weights=weights))
        for weights in ("checkpoint", "int8", "int4")
    )
    assert (plain.linear, eight.linear, four.linear) == ("native", "int8", "int4")
    assert eight.linear_reason == "quantised at load, a scale an output, head int8"
    assert four.linear_reason == "quantised at load, a scale for 32 inputs, head int8"
    assert plain.weight_bytes > eight.weight_bytes > four.weight_bytes > 0
    assert "int8 weights" in str(eight)
    assert plain.computed_by != eight.computed_by


@pytest.mark.parametrize("kind", ["llama", "mixtral"])
def test_a_quantised_engine_writes(kind, engine, build):
    core = build(kind, weights="int4")
    core.submit(engine.request(1, [1, 2, 3, 4], max_tokens=5))
    assert len(engine.drain(core).ids(1)) == 5


@pytest.mark.parametrize(
    ("kind", "more", "said"),
    [
        ("llama", {"kernels": "torch"}, "they take the cpu or triton kernels, and these are torch"),
        ("gpt_neox", {}, "transformers computes"),
    ],
)
def test_what_does_not_multiply_by_them_refuses_them(kind, more, said, model_dir):
    config = EngineConfig(model_dir(kind), weights="int8", self_check="never", **more)
    with pytest.raises(EngineUnavailable, match=said) as caught:
        load_model(config)
    assert "weights=int8" in caught.value.message
    assert "--weights" in caught.value.hint
    assert model_report(config).path == "unsupported"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"weights": "int5"}, "weights='int5'"),
        ({"weights": "int8", "weight_group": 12}, "weight_group=12"),
        ({"weights": "int8", "head_weights": "fp8"}, "head_weights='fp8'"),
        ({"weights": "int8", "activations": "int4"}, "activations='int4'"),
        ({"weight_group": 32}, "is for quantised weights"),
        ({"head_weights": "int4"}, "is for quantised weights"),
    ],
)
def test_unknown_settings_are_refused(fields, said, model_dir):
    with pytest.raises(UsageError, match=said):
        plan_load(EngineConfig(model_dir("llama"), **fields))

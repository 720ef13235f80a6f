"""MXFP4: gpt-oss as it is published, whose experts stay in their codes of four bits."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from agentrt.base.config import EngineConfig
from agentrt.base.errors import EngineUnavailable, ModelInvalid
from agentrt.engine.models.checkpoint import tensor_shapes, tensors
from agentrt.engine.models.load_plan import plan_load
from agentrt.engine.models.loader import load_model
from agentrt.engine.models.packed_weight import PackedWeight
from agentrt_kernels.quantised_weight import E2M1
from tests.engine.gguf_models import greedy_ids
from tests.engine.mxfp4_models import edit, read_by_transformers, written_in_mxfp4
from tests.engine.published_models import logits_of

CPU = torch.device("cpu")
PROMPTS = [[(3 * at) % 250 for at in range(length)] for length in (30, 4, 17)]


@pytest.fixture
def published(engine, tmp_path):
    return written_in_mxfp4(tmp_path / "published", engine)


@pytest.mark.parametrize(("exponents", "dtype"), [((118, 124), "float16"), ((60, 90), "float32")])
def test_values_are_those_that_transformers_reads(engine, tmp_path, exponents, dtype):
    path = written_in_mxfp4(tmp_path / "published", engine, exponents=exponents)
    exact = load_file(read_by_transformers(path, tmp_path / "saved") / "model.safetensors")
    assert tensor_shapes(path) == {name: tuple(one.shape) for name, one in exact.items()}
    for name, own in tensors(path, torch.float32, CPU):
        assert isinstance(own, PackedWeight) == name.endswith("_proj"), name
        if isinstance(own, PackedWeight):
            assert own.scales.dtype is getattr(torch, dtype)
            experts, inputs, outputs = exact[name].shape
            own = own.dequantize().view(experts, outputs, inputs).transpose(1, 2)
        assert torch.equal(own, exact[name]), name


def test_codes_take_half_a_byte(published):
    stored = [
        one for _, one in tensors(published, torch.float32, CPU) if isinstance(one, PackedWeight)
    ]
    assert len(stored) == 4
    for one in stored:
        assert one.resident_bytes == one.numel() // 2 + one.numel() // 32 * 2


@pytest.mark.usefixtures("native_kernels")
def test_the_model_computes_what_its_values_say(published, tmp_path):
    found, model = logits_of(published)
    assert (model.report.path, model.report.linear) == ("fast", "MXFP4")
    expected, plain = logits_of(read_by_transformers(published, tmp_path / "saved"))
    assert plain.report.path == "fast"
    assert (found - expected).norm() <= 1e-3 * expected.norm()
    values = sum(
        one.numel()
        for name, one in tensors(published, torch.float32, CPU)
        if name.endswith("_proj")
    )
    assert 0.5 * values <= model.network.quantised_bytes <= 0.75 * values


@pytest.mark.usefixtures("native_kernels")
def test_it_serves_greedy_tokens_in_batches_and_alone(published, engine):
    def served(chosen):
        return greedy_ids(published, engine, chosen, 10)

    assert served(PROMPTS) == [served([prompt])[0] for prompt in PROMPTS]


def test_a_code_is_a_float_of_four_bits():
    for code in range(16):
        sign, exponent, mantissa = code >> 3, code >> 1 & 3, code & 1
        size = 2.0 ** (exponent - 1) * (1 + mantissa / 2) if exponent else mantissa / 2
        assert E2M1[code] == (-size if sign else size)


DOWN = "model.layers.0.mlp.experts.down_proj"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({f"{DOWN}_scales": None}, "lacks scales"),
        ({f"{DOWN}_scales": lambda one: one[:, 1:]}, "has scales (4, 31, 3), not (4, 32, 3)"),
        ({f"{DOWN}_scales": lambda one: one.to(torch.int32)}, "with scales in torch.int32"),
        ({f"{DOWN}_scales": lambda one: one | 255}, "has scales that are no numbers"),
        ({f"{DOWN}_blocks": lambda one: one[..., 1:]}, "has blocks (4, 32, 3, 15)"),
        ({f"{DOWN}_blocks": lambda one: one.view(torch.int8)}, "is in torch.int8"),
        ({f"{DOWN}_blocks": lambda one: one[:, 1:]}, "holds other weights"),
    ],
)
@pytest.mark.usefixtures("native_kernels")
def test_parts_that_do_not_fit_are_refused_by_name(published, change, said):
    weights = load_file(published / "model.safetensors")
    for name, make in change.items():
        stored = weights.pop(name)
        if make is not None:
            weights[name] = make(stored).contiguous()
    save_file(weights, published / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelInvalid) as caught:
        load_model(EngineConfig(published))
    assert said in caught.value.message
    assert caught.value.hint


def test_an_unknown_setting_is_refused(published):
    edit(published, {"quant_method": "mxfp4", "turned": True})
    with pytest.raises(ModelInvalid, match="turned to True, which is not known here"):
        plan_load(EngineConfig(published))


@pytest.mark.usefixtures("native_kernels")
def test_rows_of_eight_bits_are_refused(published):
    with pytest.raises(EngineUnavailable, match="codes of MXFP4 are no integers"):
        plan_load(EngineConfig(published, activations="int8"))

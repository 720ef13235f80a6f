"""Quantised GGUF files: their values, and a model that computes with them as they are stored."""

import random

import pytest
import torch

from agentrt.base.config import EngineConfig
from agentrt.base.errors import EngineUnavailable, ModelInvalid
from agentrt.engine.models.checkpoint import tensors
from agentrt.engine.models.gguf.packed_blocks import PACKED_FORMS, packed_blocks
from agentrt.engine.models.loader import load_model
from agentrt.engine.models.native.self_check import network_logits
from agentrt.engine.models.packed_form import widened
from agentrt.engine.models.packed_weight import PackedWeight
from tests.engine.gguf_blocks import block_values, random_block
from tests.engine.gguf_models import greedy_ids, write_model
from tests.engine.quantised_gguf import WIDE, matrix, quantised_model
from tests.gguf_writer import Stored

CPU = torch.device("cpu")
MIXED = {"attn_v.": "Q6_K", "ffn_down.": "Q5_K", "ffn_up.": "Q8_0", "token_embd.": "Q4_0"}


@pytest.mark.parametrize("kind", PACKED_FORMS)
def test_values_are_those_of_the_format(kind):
    raw, values = matrix(kind, 4, 512)
    bytes_of = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(4, -1)
    packed = packed_blocks(bytes_of, kind)
    assert packed.shape == (4, 512)
    exact = kind in ("Q8_0", "Q4_0", "Q5_0", "Q6_K")
    assert torch.allclose(packed.dequantize(), values, rtol=0, atol=0 if exact else 1e-7)


@pytest.mark.parametrize("kind", PACKED_FORMS)
@pytest.mark.parametrize("other", ["Q4_0", "Q4_K", "Q5_K", "Q6_K"])
def test_a_joint_form_keeps_the_values(kind, other):
    raw, _ = matrix(kind, 2, 256)
    packed = packed_blocks(torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(2, -1), kind)
    form = PACKED_FORMS[kind].joined(PACKED_FORMS[other])
    wide = widened(packed, form)
    assert (wide.bits, wide.group, wide.zeros is not None) == (
        *(form.bits, form.group),
        form.has_zeros,
    )
    assert torch.allclose(wide.dequantize(), packed.dequantize(), rtol=0, atol=1e-7)


def test_a_group_without_a_scale_keeps_its_minimum():
    block = bytearray(random_block("Q4_K", random.Random(1)))
    block[4:8] = bytes(4)  # the scales of the first groups
    expected = torch.tensor([block_values("Q4_K", bytes(block))])
    packed = packed_blocks(torch.frombuffer(block, dtype=torch.uint8).view(1, -1), "Q4_K")
    assert expected[0, :32].unique().numel() == 1
    assert torch.allclose(packed.dequantize(), expected, rtol=0, atol=1e-7)


def logits_of(path, **settings):
    model = load_model(EngineConfig(path, self_check="never", **settings))
    logits = network_logits(model.network, model.layout, model.heads, model.logits_size)
    return logits, model.report


@pytest.mark.parametrize("kind", [*PACKED_FORMS, "mixed"])
@pytest.mark.usefixtures("native_kernels")
def test_the_model_computes_what_its_values_say(kind, engine, tmp_path):
    def kind_of(name):
        return next((one for part, one in MIXED.items() if part in name), "Q4_K")

    path, folder = quantised_model(engine, tmp_path, kind_of if kind == "mixed" else lambda _: kind)
    found, report = logits_of(path)
    expected, _ = logits_of(folder)
    error = (found - expected).square().mean().sqrt() / expected.std()
    assert error < 2e-3
    assert report.linear == ("Q4_K" if kind == "mixed" else kind)
    assert report.self_check.startswith("trusted")
    assert (found.argmax(-1) == expected.argmax(-1)).float().mean() > 0.95


@pytest.mark.usefixtures("native_kernels")
def test_nothing_quantised_is_unpacked(engine, tmp_path):
    path, _ = quantised_model(engine, tmp_path, lambda _: "Q4_K")
    for name, weight in tensors(path, torch.bfloat16, CPU):
        assert isinstance(weight, PackedWeight) == (not name.endswith("norm.weight")), name
    assert load_model(EngineConfig(path)).network.quantised_bytes > 0


@pytest.mark.usefixtures("native_kernels")
def test_it_serves_greedy_tokens_in_batches_and_alone(engine, tmp_path):
    path, _ = quantised_model(engine, tmp_path, lambda _: "Q8_0")
    prompts = [[(3 * at) % 250 for at in range(length)] for length in (30, 4, 17)]

    def served(chosen):
        return greedy_ids(path, engine, chosen, 10)

    assert served(prompts) == [served([prompt])[0] for prompt in prompts]


@pytest.mark.usefixtures("native_kernels")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernels": "torch"}, "no weights in Q8_0 run here: they take the cpu or triton"),
        ({"weights": "int4"}, "is in Q8_0 already"),
    ],
)
def test_where_nothing_multiplies_by_them_they_are_refused(settings, message, engine, tmp_path):
    path, _ = quantised_model(engine, tmp_path, lambda _: "Q8_0")
    with pytest.raises(EngineUnavailable) as caught:
        load_model(EngineConfig(path, **settings))
    assert message in caught.value.message
    assert caught.value.hint


def test_partly_quantised_neighbours_are_refused(engine, tmp_path):
    folder = tmp_path / "folder"
    engine.save_model("llama", folder, **WIDE)
    raw, _ = matrix("Q8_0", 256, 256)
    extra: dict[str, Stored] = {"blk.0.attn_q.weight": ("Q8_0", (256, 256), raw)}
    path = write_model(tmp_path / "x.gguf", folder, "llama", extra=extra)
    with pytest.raises(ModelInvalid, match="its neighbours plain"):
        dict(tensors(path, torch.float32, CPU))

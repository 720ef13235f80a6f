"""The engine on Triton kernels, under the interpreter, with matrices that stay quantised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from agentrt.base.config import EngineConfig
from agentrt.base.errors import EngineUnavailable
from agentrt.engine.models.load_plan import plan_load
from agentrt.engine.models.loader import load_model
from agentrt.engine.models.native.build import read_weights
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.packed_weight import PackedWeight
from agentrt.engine.models.report import model_report
from tests.engine.published_formats import WIDE, written
from tests.engine.published_models import logits_of

pytest.importorskip("triton", minversion="3.7", reason="the interpreter needs triton 3.7")

META = torch.device("meta")


def on_triton(path: Path, **fields: Any) -> EngineConfig:
    return EngineConfig(path, kernels="triton", self_check="never", **fields)


@pytest.fixture
def plain(engine, tmp_path):
    folder = tmp_path / "plain"
    engine.save_model("qwen2", folder, num_hidden_layers=1, **WIDE)
    return folder


@pytest.mark.parametrize("weights", ["int8", "int4"])
@pytest.mark.parametrize("kind", ["llama", pytest.param("qwen2", marks=pytest.mark.slow)])
def test_weights_rounded_at_load(kind, weights, model_dir) -> None:
    """The head of a tied model, too, whose embedding stays as it is."""
    expected, _ = logits_of(model_dir(kind), weights=weights, kernels="reference")
    found, model = logits_of(model_dir(kind), weights=weights, kernels="triton")
    assert (found - expected).norm() <= 1e-3 * expected.norm()
    assert model.report.linear == weights
    assert model.network.quantised_bytes > 0


@pytest.mark.parametrize("kind", ["llama", "mixtral"])
def test_a_quantised_engine_writes_what_the_reference_writes(kind, build, engine) -> None:
    """Prompts in chunks beside decodes, of several sequences."""
    told = []
    for kernels in ("triton", "reference"):
        core = build(kind, kernels=kernels, weights="int8", page_tokens=4, prefill_chunk_tokens=9)
        for number, prompt in enumerate(([1, 2, 3, 4] * 4, [9, 8])):
            core.submit(engine.request(number, prompt, max_tokens=3))
        served = engine.drain(core)
        told.append([served.ids(number) for number in range(2)])
    assert told[0] == told[1]


def test_codes_alone_go_to_the_device(model_dir, plain) -> None:
    """A device without values stands for one that is not here."""
    plan = plan_load(on_triton(model_dir("llama"), weights="int4"))
    assert isinstance(plan.shape, DecoderShape)
    read = read_weights(plan.shape, model_dir("llama"), plan.dtype, META, plan.quantisation)
    packed = [one for one in read.values() if isinstance(one, PackedWeight)]
    assert len(packed) == 7 * plan.shape.layers + 1
    path = written("gptq int4 reordered", plain)
    plan = plan_load(on_triton(path))
    assert isinstance(plan.shape, DecoderShape)
    for one in (*read.values(), *read_weights(plan.shape, path, plan.dtype, META).values()):
        held = [one] if isinstance(one, torch.Tensor) else [one.values, one.scales, one.order]
        assert {part.device for part in held if part is not None} == {META}


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("llama", {"weights": "int8", "activations": "int8"}, "they take the cpu kernels"),
        ("llama", {"weights": "int8", "activations": "fp8"}, "are not in FP8"),
    ],
)
def test_what_the_set_does_not_multiply_is_refused(kind, fields, said, model_dir) -> None:
    config = on_triton(model_dir(kind), **fields)
    with pytest.raises(EngineUnavailable, match=said):
        load_model(config)
    assert model_report(config).path == "unsupported"


def test_rows_in_fp8_need_groups_that_the_kernel_takes(plain) -> None:
    path = written("fp8 small blocks", plain)
    with pytest.raises(EngineUnavailable, match="groups of 32") as caught:
        logits_of(path, kernels="triton", activations="fp8")
    assert "--activations" in caught.value.hint


@pytest.mark.usefixtures("native_kernels")
def test_rows_in_fp8_need_kernels_of_a_gpu(plain) -> None:
    path = written("fp8 blocks", plain)
    with pytest.raises(EngineUnavailable, match="triton kernels of a GPU"):
        logits_of(path, activations="fp8")

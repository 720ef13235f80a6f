"""Adapters over weights of few bits: the base is rounded, and what an adapter adds is not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from agentrt import EngineConfig, LoraAdapter
from agentrt.engine.models.load_plan import plan_load
from agentrt.engine.models.native.build import read_weights
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.packed_weight import PackedWeight
from agentrt_kernels.cpu.kernel_set import CpuKernels
from tests.engine.lora_checkpoints import ATTENTION, MLP, merged_model, save_adapter

PROMPT = [(11 * at) % 250 for at in range(37)]
CLOSE = {"auto": 0.02, "int8": 0.15}
"""How far logits may be apart, as a share of their spread, by the rounding of activations."""


def dequantised(base: Path, to: Path, weights: Any) -> Path:
    """The checkpoint that has the values of the rounded matrices in full."""
    plan = plan_load(EngineConfig(base, weights=weights, self_check="never"))
    assert isinstance(plan.shape, DecoderShape)
    read = read_weights(plan.shape, base, plan.dtype, plan.device, plan.quantisation)
    shutil.copytree(base, to)
    tensors = load_file(base / "model.safetensors")
    packed = {name: one for name, one in read.items() if isinstance(one, PackedWeight)}
    assert packed
    for name, one in packed.items():
        if name in tensors:
            tensors[name] = one.dequantize().to(tensors[name].dtype).contiguous()
    save_file(tensors, to / "model.safetensors", {"format": "pt"})
    return to


@pytest.mark.parametrize("activations", ["auto", "int8"])
@pytest.mark.parametrize("weights", ["int8", "int4"])
@pytest.mark.parametrize("kind", ["llama", "qwen2", "olmo2"])
def test_rows_are_those_of_the_rounded_base_with_the_adapter(
    kind: str, weights: str, activations: str, model_dir: Any, tmp_path: Path, engine: Any
) -> None:
    if activations == "int8" and not CpuKernels().has_byte_products:
        pytest.skip("the processor has no dot products of bytes")
    base = model_dir(kind)
    plain = dequantised(base, tmp_path / "plain", weights)
    adapters = tuple(
        LoraAdapter(
            name, save_adapter(base, tmp_path / name, targets=ATTENTION + MLP, seed=seed, rank=rank)
        )
        for name, seed, rank in (("judge", 1, 4), ("coder", 2, 11))
    )
    core = engine.core(base, adapters=adapters, weights=weights, activations=activations)
    names = ["judge", "", "coder", "judge"]
    for number, name in enumerate(names):
        core.submit(engine.request(number, PROMPT[number:], adapter=name, max_tokens=5, logprobs=4))
    served = engine.drain(core)
    core.close()
    models = {one.name: merged_model(plain, one.path) for one in adapters}
    models[""] = merged_model(plain, None)
    for number, name in enumerate(names):
        ids = PROMPT[number:] + served.ids(number)
        with torch.inference_mode():
            logits = models[name](torch.tensor([ids])).logits[0]
        assert len(served.logprobs(number)) == 5
        for at, told in enumerate(served.logprobs(number)):
            row = logits[len(PROMPT[number:]) - 1 + at].log_softmax(-1)
            for token, value in told.top:
                assert abs(value - float(row[token])) < CLOSE[activations] * float(row.std())

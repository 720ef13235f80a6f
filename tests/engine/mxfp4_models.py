"""Tiny models of gpt-oss with drawn codes in MXFP4, and what transformers reads of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.utils.quantization_config import Mxfp4Config


def written_in_mxfp4(path: Path, engine: Any, *, exponents: tuple[int, int] = (118, 124)) -> Path:
    """A tiny gpt-oss with drawn codes and exponents in place of its experts."""
    engine.save_model("gpt_oss", path, intermediate_size=96)
    weights, draws = load_file(path / "model.safetensors"), torch.Generator().manual_seed(0)
    for name in [name for name in weights if name.endswith("_proj")]:
        experts, inputs, outputs = weights.pop(name).shape
        size = (experts, outputs, inputs // 32)
        blocks = torch.randint(0, 256, (*size, 16), generator=draws)
        scales = torch.randint(exponents[0], exponents[1], size, generator=draws)
        weights |= {f"{name}_blocks": blocks.byte(), f"{name}_scales": scales.byte()}
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    edit(path, {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]})
    return path


def edit(path: Path, settings: dict[str, Any]) -> None:
    """Give its config other settings of its quantisation."""
    config = json.loads((path / "config.json").read_text())
    config["quantization_config"] = settings
    (path / "config.json").write_text(json.dumps(config))


def read_by_transformers(published: Path, saved: Path) -> Path:
    """The checkpoint with plain weights, as transformers unpacks it."""
    how = Mxfp4Config(dequantize=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        published, dtype="float32", quantization_config=how
    )
    model.save_pretrained(saved, save_original_format=False)
    return saved

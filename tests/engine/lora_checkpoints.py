"""Adapters as PEFT writes them, and the model that each makes of its base by merged weights."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
MLP = ("gate_proj", "up_proj", "down_proj")
FUSED = ("qkv_proj", "gate_up_proj", "o_proj", "down_proj")


def save_adapter(
    base: Path,
    path: Path,
    *,
    targets: tuple[str, ...] = ATTENTION + MLP,
    rank: int = 4,
    alpha: float = 8,
    seed: int = 0,
    size: float = 0.3,
    change: Callable[[dict[str, Any]], None] = lambda config: None,
    **more: Any,
) -> Path:
    """A random adapter of the modules whose names end so."""
    source = torch.Generator().manual_seed(seed)
    config: dict[str, Any] = {
        "peft_type": "LORA",
        "r": rank,
        "lora_alpha": alpha,
        "target_modules": list(targets),
        "bias": "none",
        **more,
    }
    change(config)
    tensors: dict[str, torch.Tensor] = {}
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    for name, module in model.named_modules():
        if not isinstance(module, torch.nn.Linear) or not name.endswith(targets):
            continue
        own = config.get("rank_pattern", {}).get(name.rpartition(".")[2], rank)
        outputs, inputs = module.weight.shape
        at = f"base_model.model.{name}.lora_"
        tensors[f"{at}A.weight"] = torch.randn(own, inputs, generator=source) * size
        tensors[f"{at}B.weight"] = torch.randn(outputs, own, generator=source) * size
    path.mkdir(parents=True, exist_ok=True)
    save_file(tensors, path / "adapter_model.safetensors")
    (path / "adapter_config.json").write_text(json.dumps(config))
    return path


def merged_model(base: Path, adapter: Path | None) -> Any:
    """The base with an adapter's products added to its weights, in fp32."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        base, dtype=torch.float32, attn_implementation="eager"
    )
    if adapter is None:
        return model
    config = json.loads((adapter / "adapter_config.json").read_text())
    tensors = load_file(adapter / "adapter_model.safetensors")
    with torch.no_grad():
        for name, lower in tensors.items():
            if not name.endswith("lora_A.weight"):
                continue
            module = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
            alpha = config.get("alpha_pattern", {}).get(
                module.rpartition(".")[2], config["lora_alpha"]
            )
            rank = lower.shape[0]
            scale = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
            upper = tensors[name.replace("lora_A", "lora_B")]
            model.get_submodule(module).weight += scale * upper @ lower
    return model


def edit_tensors(adapter: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    """Change the matrices of an adapter."""
    file = adapter / "adapter_model.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file)

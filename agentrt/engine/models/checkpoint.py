"""A checkpoint directory: its config, and its tensors from safetensors only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from agentrt.base.errors import ModelInvalid

_INDEX = "model.safetensors.index.json"
_UNSAFE = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle", "*.msgpack", "*.h5")


def read_config(path: Path, *, weights: bool) -> dict[str, Any]:
    """Parse the `config.json` of a directory that may be loaded.

    Raises:
        ModelInvalid: Something is missing, or is refused.
    """
    if not path.is_dir():
        raise ModelInvalid(
            f"{path} is not a directory",
            hint="Give --model a Hugging Face checkpoint directory on this machine",
        )
    file = path / "config.json"
    try:
        hf_config = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelInvalid(
            f"{path} has no config.json",
            hint="Give the directory that holds config.json, tokenizer.json and *.safetensors",
        ) from None
    except (OSError, ValueError) as error:
        raise ModelInvalid(f"{file} cannot be read: {error}", hint="Copy the file again") from error
    if not isinstance(hf_config, dict):
        raise ModelInvalid(f"{file} holds no JSON object", hint="Copy the file again")
    if hf_config.get("quantization_config"):
        method = dict(hf_config["quantization_config"]).get("quant_method", "unknown")
        raise ModelInvalid(
            f"{path} is quantised ({method}), which this engine does not load yet",
            hint="Use the checkpoint in bf16, or serve it elsewhere and pass --engine URL",
        )
    if weights and not any(path.glob("*.safetensors")):
        unsafe = sorted(found.name for pattern in _UNSAFE for found in path.glob(pattern))
        what = f"only {unsafe[0]}, which may run code" if unsafe else "no weights at all"
        raise ModelInvalid(
            f"{path} has no *.safetensors: {what}",
            hint="Save it with `model.save_pretrained(path)`, which writes safetensors",
        )
    return hf_config


def shards(path: Path) -> list[Path]:
    """Safetensors files in `path`; [] if they do not have the usual names."""
    index = path / _INDEX
    if index.is_file():
        try:
            names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (ValueError, KeyError, AttributeError) as error:
            raise ModelInvalid(
                f"{index} cannot be read: {error}", hint="Copy the file again"
            ) from error
        return [path / Path(name).name for name in sorted(names)]
    single = path / "model.safetensors"
    return [single] if single.is_file() else []


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Shapes of all tensors by name, read from the headers.

    Raises:
        ModelInvalid: A shard is missing or broken.
    """
    found: dict[str, tuple[int, ...]] = {}
    for shard in shards(path):
        with _open_shard(shard, "cpu") as tensors:
            for name in tensors.keys():  # noqa: SIM118  not a dict
                found[name] = tuple(tensors.get_slice(name).get_shape())
    return found


def tensors(path: Path, dtype: torch.dtype, device: torch.device) -> Iterator[tuple[str, Tensor]]:
    """Every tensor, one after the other, converted."""
    for shard in shards(path):
        with _open_shard(shard, str(device)) as opened:
            for name in opened.keys():  # noqa: SIM118
                yield name, opened.get_tensor(name).to(dtype)


def _open_shard(shard: Path, device: str) -> safe_open:
    try:
        return safe_open(shard, framework="pt", device=device)
    except (OSError, SafetensorError) as error:
        raise ModelInvalid(
            f"{shard} cannot be loaded: {error}", hint="Copy the checkpoint again: it is not whole"
        ) from error

"""The tensors of a checkpoint directory, from safetensors and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from agentrt.errors import ModelInvalid

_INDEX = "model.safetensors.index.json"


def shards(path: Path) -> list[Path]:
    """Files of the model in `path`; [] where they are not named as usual."""
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
    """Names and shapes, read from the headers.

    Raises:
        ModelInvalid: A shard is missing or broken.
    """
    found: dict[str, tuple[int, ...]] = {}
    for shard in shards(path):
        with _opened(shard, "cpu") as tensors:
            for name in tensors.keys():  # noqa: SIM118  not a dict
                found[name] = tuple(tensors.get_slice(name).get_shape())
    return found


def tensors(path: Path, dtype: torch.dtype, device: torch.device) -> Iterator[tuple[str, Tensor]]:
    """Every tensor, one after the other, converted."""
    for shard in shards(path):
        with _opened(shard, str(device)) as opened:
            for name in opened.keys():  # noqa: SIM118
                yield name, opened.get_tensor(name).to(dtype)


def _opened(shard: Path, device: str) -> safe_open:
    try:
        return safe_open(shard, framework="pt", device=device)
    except (OSError, SafetensorError) as error:
        raise ModelInvalid(
            f"{shard} cannot be loaded: {error}", hint="Copy the checkpoint again: it is not whole"
        ) from error

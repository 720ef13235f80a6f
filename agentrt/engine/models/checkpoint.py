"""A checkpoint: the config and the tensors of a directory with safetensors, or of a GGUF file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from agentrt.base.compiled_model import is_compiled
from agentrt.base.errors import ModelInvalid
from agentrt.base.gguf.checkpoint_files import is_gguf
from agentrt.base.gguf.gguf_file import open_gguf
from agentrt.base.model_json import parse_model_json, read_model_text, unreadable
from agentrt.engine.models.config_limits import check_config
from agentrt.engine.models.gguf.hf_config import config_of
from agentrt.engine.models.gguf.tensors import (
    check_types,
    file_tensors,
    quantised_type,
    tensor_sizes,
)
from agentrt.engine.models.packed_weight import PackedWeight
from agentrt.engine.models.published.checkpoint_format import format_of
from agentrt.engine.models.published.matrices import matrices, matrix_sizes
from agentrt.engine.models.published.stored_format import StoredFormat

_INDEX = "model.safetensors.index.json"
_NAMES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}
_UNSAFE = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle", "*.msgpack", "*.h5")


def read_config(path: Path, *, weights: bool) -> dict[str, Any]:
    """The `config.json` of a checkpoint that may be loaded.

    That of a GGUF file is made from its metadata.

    Raises:
        ModelInvalid: Something is missing, or is refused.
    """
    if is_gguf(path):
        opened = open_gguf(path)
        if weights:
            check_types(opened)
        return config_of(opened)
    if not path.is_dir():
        raise ModelInvalid(
            f"{path} is not a directory",
            hint="Give a Hugging Face checkpoint directory, or a GGUF file",
        )
    file = path / "config.json"
    try:
        hf_config = parse_model_json(read_model_text(file), file)
    except FileNotFoundError:
        raise ModelInvalid(
            f"{path} has no config.json",
            hint="Give the directory that holds config.json, tokenizer.json and *.safetensors",
        ) from None
    check_config(hf_config, file)
    format_of(hf_config, path)
    if weights and not any(path.glob("*.safetensors")):
        unsafe = sorted(found.name for pattern in _UNSAFE for found in path.glob(pattern))
        what = f"only {unsafe[0]}, which may run code" if unsafe else "no weights at all"
        raise ModelInvalid(
            f"{path} has no *.safetensors: {what}",
            hint="Save it with `model.save_pretrained(path)`, which writes safetensors",
        )
    return hf_config


@dataclass(frozen=True, slots=True)
class StoredType:
    """How a checkpoint's matrices are quantised.

    Attributes:
        name: Name for display; "" if they are plain.
        has_steps: Whether all codes stand for steps, not for values of a table.
        has_floats: Whether some codes are those of FP8.
    """

    name: str
    has_steps: bool
    has_floats: bool = False


PLAIN = StoredType("", has_steps=True)


def stored_quantised(path: Path) -> StoredType:
    """The type in which a checkpoint's matrices are quantised."""
    if is_gguf(path):
        return StoredType(quantised_type(open_gguf(path)), has_steps=True)
    stored = _stored_format(path)
    if stored is None:
        return PLAIN
    return StoredType(stored.name, stored.has_steps, stored.has_floats)


def _stored_format(path: Path) -> StoredFormat | None:
    return format_of(read_config(path, weights=False), path)


def shards(path: Path) -> list[Path]:
    """Safetensors files in `path`; [] if they do not have the usual names.

    Raises:
        ModelInvalid: They are those of a compiled model.
    """
    if is_compiled(path):
        raise ModelInvalid(
            f"{path} is compiled: its weights are in the order of kernels",
            hint="Give the checkpoint that it was made of",
        )
    index = path / _INDEX
    if index.is_file():
        places = parse_model_json(read_model_text(index), index).get("weight_map")
        names: list[Any] = list(places.values()) if isinstance(places, dict) else [None]
        if not all(isinstance(name, str) and Path(name).name not in ("", "..") for name in names):
            raise ModelInvalid(f"{index} has no map of weights", hint="Copy the file again")
        return [path / name for name in sorted({Path(name).name for name in names})]
    single = path / "model.safetensors"
    return [single] if single.is_file() else []


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Shapes of all weights by name, read from the headers.

    Raises:
        ModelInvalid: A shard is missing or broken.
    """
    if is_gguf(path):
        return tensor_sizes(open_gguf(path))
    stored, sizes = _stored_format(path), _stored_sizes(path)
    if stored is None:
        return sizes
    with _stored_tensors(path, torch.device("cpu")) as read:
        return matrix_sizes(stored, path, sizes, read)


def tensors(
    path: Path, dtype: torch.dtype, device: torch.device
) -> Iterator[tuple[str, Tensor | PackedWeight]]:
    """Every weight, one after the other, converted unless it is quantised.

    Raises:
        ModelInvalid: A shard is missing or broken, or holds what is not read.
    """
    if is_gguf(path):
        yield from file_tensors(open_gguf(path), dtype, device)
        return
    stored = _stored_format(path)
    if stored is not None:
        with _stored_tensors(path, device) as read:
            yield from matrices(stored, path, _stored_sizes(path), read, dtype)
        return
    for shard in shards(path):
        with _opened(shard, str(device)) as opened:
            for name in opened.keys():  # noqa: SIM118
                yield name, opened.get_tensor(name).to(dtype)


def mapped_names(path: Path, dtype: torch.dtype) -> set[str]:
    """Names of the weights that `tensors` maps from their file, for they need no conversion.

    Raises:
        ModelInvalid: A shard is missing or broken.
    """
    if is_gguf(path) or _stored_format(path) is not None:
        return set()
    found: set[str] = set()
    for shard in shards(path):
        with _opened(shard, "cpu") as opened:
            names = list(opened.keys())
            found |= {
                one for one in names if opened.get_slice(one).get_dtype() == _NAMES.get(dtype)
            }
    return found


@contextmanager
def _stored_tensors(path: Path, device: torch.device) -> Iterator[Callable[[str], Tensor]]:
    """Tensors by name, from whichever shard holds them."""
    with ExitStack() as stack:
        places: dict[str, Any] = {}
        for shard in shards(path):
            opened = stack.enter_context(_opened(shard, str(device)))
            places |= dict.fromkeys(opened.keys(), opened)
        yield lambda name: places[name].get_tensor(name)


def _stored_sizes(path: Path) -> dict[str, tuple[int, ...]]:
    """Shapes of all tensors as they are stored."""
    found: dict[str, tuple[int, ...]] = {}
    for shard in shards(path):
        with _opened(shard, "cpu") as tensors:
            for name in tensors.keys():  # noqa: SIM118  not a dict
                found[name] = tuple(tensors.get_slice(name).get_shape())
    return found


@contextmanager
def _opened(shard: Path, device: str) -> Iterator[Any]:
    try:
        with safe_open(shard, framework="pt", device=device) as tensors:
            yield tensors
    except (OSError, SafetensorError, RecursionError) as error:
        raise unreadable(shard, error, hint="Copy the checkpoint again: it is not whole") from error

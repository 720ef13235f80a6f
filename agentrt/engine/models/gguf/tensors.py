"""Tensors of a GGUF file, by the names and in the row order of Hugging Face's checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import torch
from torch import Tensor

from agentrt.base.errors import ModelInvalid
from agentrt.base.gguf.gguf_file import GgufFile, TensorPlace
from agentrt.engine.models.gguf.architecture import (
    ROPE_FACTORS,
    architecture_of,
    checkpoint_name,
)

_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_ROTATED = ("self_attn.q_proj", "self_attn.k_proj")


def most_used_type(file: GgufFile) -> str:
    """Name of the type in which most of a file's values are."""
    values: Counter[str] = Counter()
    for place in file.tensors.values():
        values[place.type.name] += place.size // place.type.block_bytes * place.type.block_values
    return values.most_common(1)[0][0] if values else "F32"


def check_types(file: GgufFile) -> None:
    """Check that all tensors can be computed as they are stored.

    Raises:
        ModelInvalid: One is of a type for which there is no kernel.
    """
    for name, place in file.tensors.items():
        if place.type.name not in _DTYPES:
            raise ModelInvalid(
                f"{file.path} holds {name} in {place.type.name}, which no kernel here computes",
                hint="Use the file in F16, BF16 or F32, or serve it with llama-server and pass "
                "--engine URL",
            )


def tensor_sizes(file: GgufFile) -> dict[str, tuple[int, ...]]:
    """Shapes of all weights, by their names in a checkpoint.

    Raises:
        ModelInvalid: The file holds a tensor whose meaning is not known.
    """
    return {own: place.shape for own, place in _weights(file)}


def file_tensors(
    file: GgufFile, dtype: torch.dtype, device: torch.device
) -> Iterator[tuple[str, Tensor]]:
    """Every weight by its name in a checkpoint, one after the other, converted.

    A weight of the wanted dtype shares the memory of the file unless its rows are reordered.
    """
    neighbours = architecture_of(file).pairs_neighbours
    for name, place in _weights(file):
        tensor = _stored(file, place)
        if neighbours and any(part in name for part in _ROTATED):
            tensor = tensor[rows_of_halves(tensor.shape[0], _heads(file, name))]
        yield name, tensor.to(device=device, dtype=dtype)


def float_values(file: GgufFile, name: str) -> list[float]:
    """The values of a small tensor.

    Raises:
        ModelInvalid: The tensor is quantised.
    """
    place = file.tensors[name]
    if place.type.name not in _DTYPES:
        raise file.invalid(f"{name} is in {place.type.name}")
    values: list[float] = _stored(file, place).float().flatten().tolist()
    return values


def rows_of_halves(rows: int, heads: int) -> Tensor:
    """Rows of a file's queries or keys in the order of a checkpoint.

    In the file the two values that turn together are neighbours; in a checkpoint they are half a
    head apart.

    Example:
        >>> rows_of_halves(8, 2).tolist()
        [0, 2, 1, 3, 4, 6, 5, 7]
    """
    return torch.arange(rows).reshape(heads, -1, 2).transpose(1, 2).flatten()


def _heads(file: GgufFile, name: str) -> int:
    prefix = f"{architecture_of(file).name}.attention.head_count"
    heads = file.integer(prefix)
    return file.integer(f"{prefix}_kv", heads) if "k_proj" in name else heads


def _weights(file: GgufFile) -> Iterator[tuple[str, TensorPlace]]:
    for name, place in file.tensors.items():
        if name == ROPE_FACTORS:
            continue
        own = checkpoint_name(name)
        if own is None:
            raise ModelInvalid(
                f"{file.path} holds {name[:80]}, which is not known here",
                hint="Serve it with llama-server and pass --engine URL",
            )
        yield own, place


def _stored(file: GgufFile, place: TensorPlace) -> Tensor:
    """A tensor as it is stored, in the memory of the file."""
    dtype = _DTYPES[place.type.name]
    count = place.size // place.type.block_bytes
    flat = torch.frombuffer(file.data, dtype=dtype, count=count, offset=place.start)
    return flat.reshape(place.shape)

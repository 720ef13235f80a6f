"""Tensors of a GGUF file, by the names and in the row order of Hugging Face's checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from agentrt.base.errors import ModelInvalid
from agentrt.base.gguf.gguf_file import GgufFile, TensorPlace
from agentrt.engine.models.gguf.architecture import (
    ROPE_FACTORS,
    architecture_of,
    checkpoint_name,
)
from agentrt.engine.models.gguf.packed_blocks import PACKED_FORMS, packed_blocks
from agentrt.engine.models.packed_form import PackedForm, widened
from agentrt.engine.models.packed_weight import PackedWeight

_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_JOINT = (
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    ("mlp.gate_proj", "mlp.up_proj"),
)
"""Matrices that are computed as one, and so in one form."""
_ROTATED = ("self_attn.q_proj", "self_attn.k_proj")


def most_used_type(file: GgufFile) -> str:
    """Name of the type in which most of a file's values are."""
    values: Counter[str] = Counter()
    for place in file.tensors.values():
        values[place.type.name] += place.size // place.type.block_bytes * place.type.block_values
    return values.most_common(1)[0][0] if values else "F32"


def quantised_type(file: GgufFile) -> str:
    """Name of the quantised type in which most values are; "" if all are plain."""
    name = most_used_type(file)
    if name not in _DTYPES:
        return name
    kinds = [place.type.name for place in file.tensors.values()]
    return next((kind for kind in kinds if kind not in _DTYPES), "")


def check_types(file: GgufFile) -> None:
    """Check that all tensors can be computed as they are stored.

    Raises:
        ModelInvalid: One is of a type for which there is no kernel.
    """
    for name, place in file.tensors.items():
        is_matrix = name.endswith(".weight") and len(place.shape) == 2
        if place.type.name not in (*_DTYPES, *(PACKED_FORMS if is_matrix else ())):
            raise ModelInvalid(
                f"{file.path} holds {name} in {place.type.name}, which no kernel here computes",
                hint=f"Use the file in F16, BF16, F32, {', '.join(PACKED_FORMS)} or a mix of "
                "these, or serve it with llama-server and pass --engine URL",
            )


def tensor_sizes(file: GgufFile) -> dict[str, tuple[int, ...]]:
    """Shapes of all weights, by their names in a checkpoint.

    Raises:
        ModelInvalid: The file holds a tensor whose meaning is not known.
    """
    return {own: place.shape for own, place in _weights(file)}


def file_tensors(
    file: GgufFile, dtype: torch.dtype, device: torch.device
) -> Iterator[tuple[str, Tensor | PackedWeight]]:
    """Every weight by its name in a checkpoint, one after the other.

    A weight of the wanted dtype shares the memory of the file unless its rows are reordered. Others
    are converted, and quantised ones stay quantised.

    Raises:
        ModelInvalid: Matrices that are computed as one are partly quantised.
    """
    neighbours = architecture_of(file).pairs_neighbours
    places = dict(_weights(file))
    for name, place in places.items():
        order: Tensor | slice = slice(None)
        if neighbours and any(part in name for part in _ROTATED):
            order = rows_of_halves(place.shape[0], _heads(file, name))
        if place.type.name in PACKED_FORMS:
            form = _joint_form(file, name, places)
            packed = packed_blocks(_raw(file, place), place.type.name).rows(order)
            yield name, packed if form is None else widened(packed, form)
        else:
            yield name, _stored(file, place)[order].to(device=device, dtype=dtype)


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


def _joint_form(file: GgufFile, name: str, places: Mapping[str, TensorPlace]) -> PackedForm | None:
    """The form of matrices that become one with the one of this name; None if it stands alone."""
    part = next((part for parts in _JOINT for part in parts if f".{part}." in name), None)
    if part is None:
        return None
    parts = next(parts for parts in _JOINT if part in parts)
    kinds = [places[name.replace(part, one)].type.name for one in parts]
    if any(kind in _DTYPES for kind in kinds):
        raise ModelInvalid(
            f"{file.path} holds {name} in {places[name].type.name} and its neighbours plain",
            hint="Quantise the file with the usual settings of llama-quantize",
        )
    form = PACKED_FORMS[kinds[0]]
    for kind in kinds[1:]:
        form = form.joined(PACKED_FORMS[kind])
    return form


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


def _raw(file: GgufFile, place: TensorPlace) -> Tensor:
    """The bytes of a matrix `[N, bytes of a row]`, in the memory of the file."""
    flat = torch.frombuffer(file.data, dtype=torch.uint8, count=place.size, offset=place.start)
    return flat.view(place.shape[0], -1)


def _stored(file: GgufFile, place: TensorPlace) -> Tensor:
    """A tensor as it is stored, in the memory of the file."""
    dtype = _DTYPES[place.type.name]
    count = place.size // place.type.block_bytes
    flat = torch.frombuffer(file.data, dtype=dtype, count=count, offset=place.start)
    return flat.reshape(place.shape)

"""Matrices of a quantised checkpoint, gathered from the tensors that they are written as."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from agentrt.base.errors import ModelInvalid
from agentrt.engine.models.packed_form import PackedForm, form_of
from agentrt.engine.models.packed_weight import PackedWeight
from agentrt.engine.models.published.stored_format import (
    ELSEWHERE,
    Size,
    StoredFormat,
    StoredMatrix,
)

_JOINT = (
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    ("mlp.gate_proj", "mlp.up_proj"),
)
"""Matrices that are computed as one, and so of one order of inputs."""
_EXPERT = re.compile(r"\.experts\.\d+\.")
_ORDERS = ("g_idx", "weight_g_idx")


Reader = Callable[[str], Tensor]
"""Reads a tensor by its name, as it is stored."""


def matrix_sizes(
    stored: StoredFormat, path: Path, sizes: Mapping[str, Size], read: Reader
) -> dict[str, Size]:
    """Shapes of all weights by the names that they have in a plain checkpoint.

    Args:
        stored: Format of the quantised matrices.
        path: The checkpoint, for errors.
        sizes: Shapes of all tensors.
        read: Reads one.

    Raises:
        ModelInvalid: Parts of a matrix are missing.
    """
    found, plain = _split(stored, path, sizes, read)
    return {
        **{name: sizes[name] for name in plain},
        **{
            f"{module}{stored.parts.ending}": stored.size(matrix)
            for module, matrix in found.items()
        },
    }


def matrices(
    stored: StoredFormat,
    path: Path,
    sizes: Mapping[str, Size],
    read: Reader,
    dtype: torch.dtype,
) -> Iterator[tuple[str, Tensor | PackedWeight]]:
    """Every weight, one after the other; quantised ones stay so.

    Args:
        stored: Format of the quantised matrices.
        path: The checkpoint, for errors.
        sizes: Shapes of all tensors.
        read: Reads one.
        dtype: Type of the plain weights.

    Raises:
        ModelInvalid: Parts do not fit each other, or matrices that are computed as one differ.
    """
    found, plain = _split(stored, path, sizes, read)
    for name in plain:
        yield name, read(name).to(dtype)
    forms: dict[str, PackedForm] = {}
    for module, matrix in found.items():
        _check_joint(matrix, found, plain)
        packed = stored.packed(matrix)
        if forms.setdefault(_EXPERT.sub(".experts.", module), form_of(packed)) != form_of(packed):
            raise matrix.invalid("has another form than the same matrix of other experts")
        yield f"{module}{stored.parts.ending}", packed


def _split(
    stored: StoredFormat, path: Path, sizes: Mapping[str, Size], read: Reader
) -> tuple[dict[str, StoredMatrix], list[str]]:
    """Quantised matrices by module, and the names of all other tensors."""
    parts = stored.parts
    ending = parts.tensor_name("", parts.mark)
    found, owned = dict[str, StoredMatrix](), set[str]()
    for name in sizes:
        if name.endswith(ending):
            module = name.removesuffix(ending)
            names = {part: parts.tensor_name(module, part) for part in parts.names}
            own = {part: one for part, one in names.items() if one in sizes}
            owned.update(own.values())
            found[module] = StoredMatrix(
                path,
                module,
                {part: sizes[one] for part, one in own.items()},
                partial(_read_part, read, own),
            )
    return found, [name for name in sizes if name not in owned]


def _read_part(read: Reader, names: Mapping[str, str], part: str) -> Tensor:
    return read(names[part])


def _check_joint(
    matrix: StoredMatrix, found: Mapping[str, StoredMatrix], plain: Sequence[str]
) -> None:
    """Check that a matrix can be computed as one with its neighbours."""
    part = next((one for group in _JOINT for one in group if matrix.module.endswith(one)), None)
    if part is None:
        return
    group = next(group for group in _JOINT if part in group)
    for other in (matrix.module.removesuffix(part) + one for one in group):
        if f"{other}.weight" in plain:
            raise ModelInvalid(
                f"{matrix.path} holds {matrix.module} quantised and {other} plain, "
                "and both are one product",
                hint=ELSEWHERE,
            )
        for order in _ORDERS:
            if other in found and order in matrix and order in found[other]:
                own = matrix.tensor(order)
                if not torch.equal(own, found[other].tensor(order)):
                    raise matrix.invalid(
                        f"orders its inputs otherwise than {other}, one product with it"
                    )

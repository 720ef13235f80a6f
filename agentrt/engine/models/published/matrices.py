"""Matrices of a quantised checkpoint, gathered from the tensors that they are written as."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from agentrt.base.errors import ModelInvalid
from agentrt.engine.models.packed_weight import PackedWeight
from agentrt.engine.models.published.stored_format import (
    ELSEWHERE,
    Size,
    StoredFormat,
    invalid_matrix,
)

_JOINT = (
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    ("mlp.gate_proj", "mlp.up_proj"),
)
"""Matrices that are computed as one, and so of one order of inputs."""
_ORDERS = ("g_idx", "weight_g_idx")


class TensorSource(Protocol):
    """Tensors by name."""

    def __call__(self, name: str) -> Tensor:
        """A tensor as it is stored."""
        ...


def matrix_sizes(stored: StoredFormat, sizes: Mapping[str, Size]) -> dict[str, Size]:
    """Shapes of all weights by the names that they have in a plain checkpoint.

    Args:
        stored: Format of the quantised matrices.
        sizes: Shapes of all tensors.

    Raises:
        ModelInvalid: Parts of a matrix are missing.
    """
    modules = _modules(stored, sizes)
    owned = {name for parts in modules.values() for name in parts.values()}
    found = {name: size for name, size in sizes.items() if name not in owned}
    for module, parts in modules.items():
        shapes = {part: sizes[name] for part, name in parts.items()}
        found[f"{module}.weight"] = stored.size(module, shapes)
    return found


def matrices(
    stored: StoredFormat,
    path: Path,
    sizes: Mapping[str, Size],
    tensor: TensorSource,
    dtype: torch.dtype,
) -> Iterator[tuple[str, Tensor | PackedWeight]]:
    """Every weight, one after the other; quantised ones stay so.

    Args:
        stored: Format of the quantised matrices.
        path: The checkpoint, for errors.
        sizes: Shapes of all tensors.
        tensor: Reads one.
        dtype: Type of the plain weights.

    Raises:
        ModelInvalid: Parts do not fit each other, or matrices that are computed as one differ.
    """
    modules = _modules(stored, sizes)
    owned = {name for parts in modules.values() for name in parts.values()}
    for name in sizes:
        if name not in owned:
            yield name, tensor(name).to(dtype)
    for module, parts in modules.items():
        _check_joint(path, module, modules, sizes, tensor)
        yield (
            f"{module}.weight",
            stored.packed(module, {part: tensor(name) for part, name in parts.items()}),
        )


def _modules(stored: StoredFormat, names: Mapping[str, Size]) -> dict[str, dict[str, str]]:
    """Names of the tensors of each quantised matrix, by module and part."""
    ending = f".{stored.mark}"
    marked = [name.removesuffix(ending) for name in names if name.endswith(ending)]
    parts: Sequence[str] = stored.parts
    return {
        module: {part: f"{module}.{part}" for part in parts if f"{module}.{part}" in names}
        for module in marked
    }


def _check_joint(
    path: Path,
    module: str,
    modules: Mapping[str, Mapping[str, str]],
    sizes: Mapping[str, Size],
    tensor: TensorSource,
) -> None:
    """Check that a matrix can be computed as one with its neighbours."""
    part = next((one for group in _JOINT for one in group if module.endswith(one)), None)
    if part is None:
        return
    group = next(group for group in _JOINT if part in group)
    for other in (module.removesuffix(part) + one for one in group):
        if other not in modules:
            if f"{other}.weight" in sizes:
                raise ModelInvalid(
                    f"{path} holds {module} quantised and {other} plain, and both are one product",
                    hint=ELSEWHERE,
                )
            continue
        for order in _ORDERS:
            names = modules[module].get(order), modules[other].get(order)
            if names[0] and names[1] and not torch.equal(tensor(names[0]), tensor(names[1])):
                raise invalid_matrix(
                    path, module, f"orders its inputs otherwise than {other}, one product with it"
                )

"""Seam between a checkpoint and the formats that write a matrix as several tensors.

Letters of the shapes: E experts, N outputs, W inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from agentrt.base.errors import ModelInvalid
from agentrt.engine.models.packed_weight import PackedWeight

ELSEWHERE = "Use the checkpoint in bf16, or serve it elsewhere and pass --engine URL"

Size = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StoredParts:
    """The tensors that a format writes a matrix as, and their names.

    Example:
        >>> parts = StoredParts("scales", ("blocks", "scales"), separator="_", ending="")
        >>> parts.tensor_name("experts.down_proj", "blocks")
        'experts.down_proj_blocks'

    Attributes:
        mark: Part by which a quantised matrix is known.
        names: All parts that a matrix may have.
        separator: Stands between the module of a matrix and a part.
        ending: Follows the module in the name of the plain matrix.
    """

    mark: str
    names: Sequence[str]
    separator: str = "."
    ending: str = ".weight"

    def tensor_name(self, module: str, part: str) -> str:
        """Name of the tensor that is a part of a module's matrix."""
        return f"{module}{self.separator}{part}"


@dataclass(frozen=True, slots=True)
class StoredMatrix:
    """The tensors of one matrix.

    Attributes:
        path: The checkpoint.
        module: Name of the matrix without its ending, such as `.weight`.
        sizes: Shapes of its parts.
        read: Reads a part.
    """

    path: Path
    module: str
    sizes: Mapping[str, Size]
    read: Callable[[str], Tensor]

    def __contains__(self, part: str) -> bool:
        return part in self.sizes

    def tensor(self, part: str) -> Tensor:
        """A part as it is stored.

        Raises:
            ModelInvalid: The part is missing.
        """
        if part not in self.sizes:
            raise self.invalid(f"lacks {part}")
        return self.read(part)

    def codes(self, part: str, dtype: torch.dtype) -> Tensor:
        """A part that holds codes.

        Raises:
            ModelInvalid: The part is missing, or of another type.
        """
        found = self.tensor(part)
        if found.dtype is not dtype or found.dim() != 2:
            raise self.invalid(f"has {part} {tuple(found.shape)} in {found.dtype}")
        return found

    def invalid(self, what: str) -> ModelInvalid:
        """The error of a matrix whose tensors cannot be read."""
        return ModelInvalid(
            f"{self.path}: {self.module} {what}",
            hint="Copy the checkpoint again; if it is whole, serve it elsewhere and pass "
            "--engine URL",
        )


class StoredFormat(Protocol):
    """How the quantised matrices of one checkpoint are written.

    Attributes:
        name: Name for display, such as "GPTQ int4".
        has_steps: Whether all codes stand for steps, not for values of a table.
        has_floats: Whether some codes are those of FP8.
        parts: The tensors of a matrix.
    """

    @property
    def name(self) -> str: ...
    @property
    def has_steps(self) -> bool: ...
    @property
    def has_floats(self) -> bool: ...
    @property
    def parts(self) -> StoredParts: ...

    def size(self, matrix: StoredMatrix) -> Size:
        """Shape of a matrix as a plain checkpoint has it: `(N, W)`, or `(E, W, N)` of experts.

        Raises:
            ModelInvalid: A part is missing.
        """
        ...

    def packed(self, matrix: StoredMatrix) -> PackedWeight:
        """A matrix, its codes as they are stored; of experts all outputs, `[E * N, W]`.

        Raises:
            ModelInvalid: The parts do not fit each other.
        """
        ...


class FormatSettings:
    """A `quantization_config`, or an object inside it, whose names are all accounted for.

    Args:
        path: The checkpoint.
        at: Where the object stands, for errors.
        values: The object.
    """

    def __init__(self, path: Path, at: str, values: Mapping[str, Any]) -> None:
        self.path, self._at, self._values = path, at, values

    def get(self, name: str, default: Any = None) -> Any:
        """A value, or the default if it is absent or null."""
        value = self._values.get(name)
        return default if value is None else value

    def inner(self, name: str) -> FormatSettings:
        """An object inside this one; an empty one if it is absent.

        Raises:
            ModelInvalid: The value is no object.
        """
        value = self.get(name, {})
        if not isinstance(value, dict):
            raise self.refused(name, "which is no object")
        return FormatSettings(self.path, f"{self._at}.{name}", value)

    def names(self) -> list[str]:
        """Names of all values."""
        return list(self._values)

    def check_known(self, *known: str) -> None:
        """Refuse values of other names, unless they are null, false or empty.

        Raises:
            ModelInvalid: There is one.
        """
        for name, value in self._values.items():
            if name not in known and value not in (None, False, [], {}, ""):
                raise self.refused(name, "which is not known here")

    def check_one_of(self, name: str, allowed: Sequence[Any], default: Any = None) -> Any:
        """The value of a name.

        Raises:
            ModelInvalid: The value is none of those allowed.
        """
        value = self.get(name, default)
        if not any(value is one or (value == one and type(value) is type(one)) for one in allowed):
            read = ", ".join(str(one) for one in allowed if one is not None)
            raise self.refused(name, f"and what is read here is {read}")
        return value

    def integer(self, name: str, least: int, default: int | None = None) -> int:
        """A whole number.

        Raises:
            ModelInvalid: The value is no whole number, or too small.
        """
        value = self.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.refused(name, "which is no such number")
        return value

    def refused(self, name: str, why: str) -> ModelInvalid:
        """The error of a value that is not read."""
        value = repr(self._values.get(name))
        short = value if len(value) <= 60 else value[:60] + "..."
        return ModelInvalid(
            f"{self.path / 'config.json'} sets {self._at}.{name} to {short}, {why}", hint=ELSEWHERE
        )

"""Weights of a decoder in two files: packed matrices in one block, all else beside them.

Which matrices and norms there are is known to what writes and reads: `stack_files`, `layer_files`.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from agentrt.base.errors import ModelInvalid
from agentrt.engine.models.compiled.aligned_file import AlignedWriter, read_aligned
from agentrt.engine.models.compiled.manifest import (
    PACKED_FILE,
    PLAIN_FILE,
    CodesForm,
    CompiledModel,
)
from agentrt.engine.models.packed_embedding import PackedEmbedding
from agentrt.engine.models.packed_weight import PackedWeight
from agentrt_kernels.cpu.kernel_set import CpuKernels
from agentrt_kernels.cpu.linear import LinearParts, NativeLinear
from agentrt_kernels.cpu.quantised import QuantisedLinear
from agentrt_kernels.cpu.stored_linear import LinearSize

_IN_BLOCK = ("memory", "codes", "scales", "zeros", "factors")
"""Parts of a matrix that a step reads from beginning to end."""
_CODES = ("values", "scales", "zeros", "order", "table")


class WeightWriter:
    """Writes weights as they come, so that memory holds one matrix; for a `with` statement.

    Args:
        folder: Where the two files are written.
        most_matrices: Most matrices that will be added.

    Attributes:
        forms: Form of each matrix by name.
        embedding: Form of the embedding.
    """

    def __init__(self, folder: Path, most_matrices: int) -> None:
        self._folder = folder
        self._block = AlignedWriter(folder / PACKED_FILE, most_matrices * len(_IN_BLOCK))
        self._plain: dict[str, Tensor] = {}
        self.forms: dict[str, CodesForm] = {}
        self.embedding = CodesForm(0, 0)

    def __enter__(self) -> Self:
        self._block.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._block.__exit__(kind, error, trace)
        if kind is None:
            file = self._folder / PLAIN_FILE
            # Tensors of one file share its memory, which the library refuses to write.
            save_file({name: one.contiguous().clone() for name, one in self._plain.items()}, file)
            file.chmod(self._folder.stat().st_mode & 0o666)  # as all files here, by the umask

    def add_matrix(self, name: str, matrix: NativeLinear) -> None:
        """Add a packed matrix with its bias."""
        parts = matrix.parts()
        self.forms[name] = CodesForm(parts.bits, parts.group, parts.coding)
        for part, tensor in parts.tensors.items():
            if part in _IN_BLOCK:
                self._block.add(f"{name}.{part}", tensor)
            else:
                self._plain[f"{name}.{part}"] = tensor

    def add_plain(self, **tensors: Tensor | None) -> None:
        """Add tensors that are read as they are; None is none."""
        self._plain |= {name: one for name, one in tensors.items() if one is not None}

    def add_embedding(self, embedding: Tensor | PackedEmbedding) -> None:
        """Add the embedding."""
        if not isinstance(embedding, PackedEmbedding):
            self.add_plain(embedding=embedding)
            return
        codes = embedding.weight
        self.embedding = CodesForm(codes.bits, codes.group)
        self.add_plain(**{f"embedding.{name}": getattr(codes, name) for name in _CODES})


class WeightReader:
    """Weights of a compiled model, memory-mapped, each held to the size that its place needs.

    Args:
        kernels: The native kernel set.
        model: The compiled model.
        dtype: Type of activations.
        row_bits: 16 or 8, to which rows are rounded for the codes of layers.

    Attributes:
        quantised_bytes: Bytes of the matrices so far that stay quantised.

    Raises:
        ModelInvalid: The files are cut; in the methods, they are not those of such a decoder.
    """

    def __init__(
        self, kernels: CpuKernels, model: CompiledModel, dtype: torch.dtype, row_bits: int
    ) -> None:
        self._kernels, self._model = kernels, model
        self._dtype, self._row_bits = dtype, row_bits
        self._plain = _mapped(model.path / PLAIN_FILE)
        self._parts: dict[str, dict[str, Tensor]] = defaultdict(dict)
        for name, tensor in (read_aligned(model.path / PACKED_FILE) | self._plain).items():
            matrix, _, part = name.rpartition(".")
            self._parts[matrix][part] = tensor
        self.quantised_bytes = 0

    def matrix(
        self, name: str, inputs: int, outputs: int, *, gated: bool = False, bits: int = 0
    ) -> NativeLinear:
        """A packed matrix.

        Args:
            name: As it was added.
            inputs: Inputs of the place.
            outputs: Outputs of the place; half as many as rows if `gated`.
            gated: Whether values go each through a gate.
            bits: Bits of rows for codes; 0 for those of layers.
        """
        form = self._model.matrices.get(name, CodesForm(0, 0))
        parts = LinearParts(form.bits, form.group, form.coding, self._parts.get(name, {}))
        size = LinearSize(inputs, outputs, self._dtype, gated, bits or self._row_bits)
        try:
            made = self._kernels.joined_linear(parts, size)
        except ValueError as error:
            raise self._unfit(f"{name}: {error}") from error
        if isinstance(made, QuantisedLinear):
            self.quantised_bytes += made.resident_bytes
        return made

    def plain(self, name: str, size: tuple[int, ...]) -> Tensor:
        """A tensor of the type of activations, or in fp32."""
        found = self._plain.get(name)
        if found is None or tuple(found.shape) != size:
            what = "missing" if found is None else str(tuple(found.shape))
            raise self._unfit(f"{name} is {what}, not {size}")
        if found.dtype not in (self._dtype, torch.float32):
            raise self._unfit(f"{name} is in {found.dtype}, not in {self._dtype}")
        return found

    def embedding(self, vocabulary: int, hidden: int) -> Tensor | PackedEmbedding:
        """The embedding `[vocabulary, hidden]`, or what makes its rows."""
        form, size = self._model.embedding, (vocabulary, hidden)
        if not form.bits:
            found = self.plain("embedding", size)
            if found.dtype is not self._dtype:
                raise self._unfit(f"embedding is in {found.dtype}, not in {self._dtype}")
            return found
        codes: dict[str, Any] = {name: self._plain.get(f"embedding.{name}") for name in _CODES}
        if form.bits not in (4, 8) or codes["values"] is None or codes["scales"] is None:
            raise self._unfit(f"embedding has no codes of {form.bits} bits")
        weight = PackedWeight(bits=form.bits, group=form.group, **codes)  # type: ignore[arg-type]
        if tuple(weight.shape) != size:
            raise self._unfit(f"embedding is {tuple(weight.shape)}, not {size}")
        return PackedEmbedding(weight, self._dtype)

    def _unfit(self, what: str) -> ModelInvalid:
        return ModelInvalid(
            f"{self._model.path} holds other weights than its config.json says: {what}",
            hint=f"Run `{self._model.command}`",
        )


def _mapped(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as opened:
            return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ModelInvalid(
            f"{path} cannot be read: {error}", hint="Compile the model again, or copy it again"
        ) from error

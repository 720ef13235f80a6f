"""Weights of a dense decoder in two files: packed matrices in one block, all else beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.native.stack_weights import StackWeights
from agentrt.engine.models.packed_embedding import PackedEmbedding
from agentrt.engine.models.packed_weight import PackedWeight
from agentrt_kernels.contract import Score
from agentrt_kernels.cpu.kernel_set import CpuKernels
from agentrt_kernels.cpu.linear import LinearParts, NativeLinear
from agentrt_kernels.cpu.stack import Matrix, StackLayer
from agentrt_kernels.cpu.stored_linear import LinearSize
from agentrt_kernels.quantised_weight import QuantisedWeight

_MATRICES = ("qkv", "out", "gate_up", "down")
_NORMS = ("norm", "out_norm", "query_norm", "key_norm", "inner_norm", "inner_out_norm")
_IN_BLOCK = ("memory", "codes", "scales", "zeros", "factors")
"""Parts of a matrix that a step reads from beginning to end."""
_CODES = ("values", "scales", "zeros", "order", "table")


def write_stack(
    kernels: CpuKernels, shape: DecoderShape, weights: StackWeights, folder: Path
) -> tuple[dict[str, CodesForm], CodesForm]:
    """Write the weights into a folder, layer after layer: memory holds one packed.

    Returns:
        Form of each matrix by name, and that of the embedding.
    """
    forms: dict[str, CodesForm] = {}
    plain: dict[str, Tensor] = {}
    tensors = (len(_MATRICES) * shape.layers + 1) * len(_IN_BLOCK)
    with AlignedWriter(folder / PACKED_FILE, tensors) as block:

        def add(name: str, matrix: Matrix, *, gated: bool = False) -> None:
            parts = _packed(kernels, matrix, gated=gated).parts()
            forms[name] = CodesForm(parts.bits, parts.group, parts.coding)
            for part, tensor in parts.tensors.items():
                if part in _IN_BLOCK:
                    block.add(f"{name}.{part}", tensor)
                else:
                    plain[f"{name}.{part}"] = tensor

        for number, layer in enumerate(weights.layers):
            at = f"layers.{number}"
            for name in _MATRICES:
                add(f"{at}.{name}", getattr(layer, name), gated=name == "gate_up")
            norms = {name: getattr(layer, name) for name in _NORMS}
            held = norms | {"sinks": layer.score.sinks}
            plain |= {f"{at}.{name}": one for name, one in held.items() if one is not None}
        add("head", Matrix(weights.head))
    plain["norm"] = weights.norm
    embedding, form = weights.embedding, CodesForm(0, 0)
    if isinstance(embedding, PackedEmbedding):
        codes = embedding.weight
        form = CodesForm(codes.bits, codes.group)
        held = {name: getattr(codes, name) for name in _CODES}
        plain |= {f"embedding.{name}": one for name, one in held.items() if one is not None}
    else:
        plain["embedding"] = embedding
    # Tensors of one file share its memory, which the library refuses to write.
    save_file({name: one.contiguous().clone() for name, one in plain.items()}, folder / PLAIN_FILE)
    (folder / PLAIN_FILE).chmod(folder.stat().st_mode & 0o666)  # as all files here, by the umask
    return forms, form


def read_stack(
    kernels: CpuKernels,
    shape: DecoderShape,
    model: CompiledModel,
    dtype: torch.dtype,
    row_bits: int,
) -> StackWeights:
    """The weights of a compiled model, memory-mapped.

    Args:
        kernels: The native kernel set.
        shape: Shape of the decoder.
        model: The compiled model.
        dtype: Type of activations.
        row_bits: 16 or 8, to which rows are rounded for the codes of layers.

    Raises:
        ModelInvalid: The files are not those of such a decoder.
    """
    packed, plain = read_aligned(model.path / PACKED_FILE), _mapped(model.path / PLAIN_FILE)
    held = packed | plain

    def linear(
        name: str, inputs: int, outputs: int, *, gated: bool = False, bits: int = row_bits
    ) -> NativeLinear:
        form = model.matrices.get(name, CodesForm(0, 0))
        at = f"{name}."
        tensors = {one.removeprefix(at): held[one] for one in held if one.startswith(at)}
        parts = LinearParts(form.bits, form.group, form.coding, tensors)
        try:
            return kernels.joined_linear(parts, LinearSize(inputs, outputs, dtype, gated, bits))
        except ValueError as error:
            raise _unfit(model, f"{name}: {error}") from error

    def layers() -> Iterator[StackLayer]:
        wide = shape.query_width + 2 * shape.kv_width
        for number in range(shape.layers):
            at = f"layers.{number}"
            norms: dict[str, Any] = {
                name: None if size is None else _plain(model, plain, f"{at}.{name}", size)
                for name, size in _sizes(shape).items()
            }
            score = Score(shape.scaling, shape.softcap, shape.windows[number], norms.pop("sinks"))
            yield StackLayer(
                qkv=Matrix(linear(f"{at}.qkv", shape.hidden, wide)),
                out=Matrix(linear(f"{at}.out", shape.query_width, shape.hidden)),
                gate_up=Matrix(linear(f"{at}.gate_up", shape.hidden, shape.inner, gated=True)),
                down=Matrix(linear(f"{at}.down", shape.inner, shape.hidden)),
                score=score,
                **norms,
            )

    return StackWeights(
        parameters=model.parameters,
        embedding=_embedding(model, shape, plain, dtype),
        layers=layers(),
        norm=_plain(model, plain, "norm", (shape.hidden,)),
        head=linear("head", shape.hidden, shape.vocabulary, bits=16),
    )


def _packed(kernels: CpuKernels, matrix: Matrix, *, gated: bool) -> NativeLinear:
    weight: Tensor | QuantisedWeight | NativeLinear = matrix.weight
    if isinstance(weight, NativeLinear):
        return weight
    if isinstance(weight, Tensor):
        return kernels.pack(weight, matrix.bias, gated=gated)
    return kernels.pack_codes(weight, matrix.bias, gated=gated)


def _sizes(shape: DecoderShape) -> dict[str, tuple[int, ...] | None]:
    """Shapes of a layer's norms and sinks; None for those that it has not."""
    names, hidden = shape.names, (shape.hidden,)
    query: tuple[int, ...] | None = None
    key: tuple[int, ...] | None = None
    if shape.head_norms == "own":
        query, key = (shape.heads, shape.head_dim), (shape.kv_heads, shape.head_dim)
    elif shape.head_norms == "each":
        query = key = (shape.head_dim,)
    return {
        "norm": hidden if names.norm else None,
        "out_norm": hidden if names.out_norm else None,
        "query_norm": query,
        "key_norm": key,
        "inner_norm": hidden if names.inner_norm else None,
        "inner_out_norm": hidden if names.inner_out_norm else None,
        "sinks": (shape.heads,) if shape.sinks else None,
    }


def _embedding(
    model: CompiledModel, shape: DecoderShape, plain: Mapping[str, Tensor], dtype: torch.dtype
) -> Tensor | PackedEmbedding:
    form, size = model.embedding, (shape.vocabulary, shape.hidden)
    if not form.bits:
        found = _plain(model, plain, "embedding", size)
        if found.dtype is not dtype:
            raise _unfit(model, f"embedding is in {found.dtype}, not in {dtype}")
        return found
    codes: dict[str, Any] = {name: plain.get(f"embedding.{name}") for name in _CODES}
    if form.bits not in (4, 8) or codes["values"] is None or codes["scales"] is None:
        raise _unfit(model, f"embedding has no codes of {form.bits} bits")
    weight = PackedWeight(bits=form.bits, group=form.group, **codes)  # type: ignore[arg-type]
    if tuple(weight.shape) != size:
        raise _unfit(model, f"embedding is {tuple(weight.shape)}, not {size}")
    return PackedEmbedding(weight, dtype)


def _plain(
    model: CompiledModel, plain: Mapping[str, Tensor], name: str, size: tuple[int, ...]
) -> Tensor:
    found = plain.get(name)
    if found is None or tuple(found.shape) != size:
        what = "missing" if found is None else str(tuple(found.shape))
        raise _unfit(model, f"{name} is {what}, not {size}")
    return found


def _mapped(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as opened:
            return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ModelInvalid(
            f"{path} cannot be read: {error}", hint="Compile the model again, or copy it again"
        ) from error


def _unfit(model: CompiledModel, what: str) -> ModelInvalid:
    return ModelInvalid(
        f"{model.path} holds other weights than its config.json says: {what}",
        hint=f"Run `{model.command}`",
    )

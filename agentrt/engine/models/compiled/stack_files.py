"""Files of a dense decoder: the matrices of its one native call, layer after layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from torch import Tensor

from agentrt.engine.models.compiled.layer_norms import add_norms, read_norms
from agentrt.engine.models.compiled.weight_files import WeightReader, WeightWriter
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.native.stack_weights import StackWeights
from agentrt_kernels.cpu.kernel_set import CpuKernels
from agentrt_kernels.cpu.linear import NativeLinear
from agentrt_kernels.cpu.stack import Matrix, StackLayer
from agentrt_kernels.quantised_weight import QuantisedWeight

_MATRICES = ("qkv", "out", "gate_up", "down")


def write_stack(
    kernels: CpuKernels,
    shape: DecoderShape,
    weights: StackWeights,
    folder: Path,
    on_layer: Callable[[int, int], None],
) -> WeightWriter:
    """Write the weights into a folder, layer after layer: memory holds one packed.

    Args:
        kernels: Packs the matrices.
        shape: Shape of the decoder.
        weights: Weights of the decoder.
        folder: The folder.
        on_layer: Called with the number of layers that are written, and of all.

    Returns:
        What has written them, which knows their forms.
    """
    with WeightWriter(folder, len(_MATRICES) * shape.layers + 1) as writer:
        for number, layer in enumerate(weights.layers):
            at = f"layers.{number}"
            for name in _MATRICES:
                packed = _packed(kernels, getattr(layer, name), gated=name == "gate_up")
                writer.add_matrix(f"{at}.{name}", packed)
            add_norms(writer, at, layer)
            on_layer(number + 1, shape.layers)
        writer.add_matrix("head", _packed(kernels, Matrix(weights.head), gated=False))
        writer.add_plain(norm=weights.norm)
        writer.add_embedding(weights.embedding)
    return writer


def read_stack(shape: DecoderShape, reader: WeightReader, parameters: int) -> StackWeights:
    """The weights of a compiled model of `parameters` parameters.

    Raises:
        ModelInvalid: The files are not those of such a decoder.
    """
    read, hidden, inner = reader.matrix, shape.hidden, shape.inner

    def layers() -> Iterator[StackLayer]:
        wide = shape.query_width + 2 * shape.kv_width
        for number in range(shape.layers):
            at = f"layers.{number}"
            yield StackLayer(
                qkv=Matrix(read(f"{at}.qkv", hidden, wide)),
                out=Matrix(read(f"{at}.out", shape.query_width, hidden)),
                gate_up=Matrix(read(f"{at}.gate_up", hidden, inner, gated=True)),
                down=Matrix(read(f"{at}.down", inner, hidden)),
                **read_norms(reader, shape, number),
            )

    return StackWeights(
        parameters=parameters,
        embedding=reader.embedding(shape.vocabulary, hidden),
        layers=layers(),
        norm=reader.plain("norm", (hidden,)),
        head=read("head", hidden, shape.vocabulary, bits=16),
    )


def _packed(kernels: CpuKernels, matrix: Matrix, *, gated: bool) -> NativeLinear:
    weight: Tensor | QuantisedWeight | NativeLinear = matrix.weight
    if isinstance(weight, NativeLinear):
        return weight
    if isinstance(weight, Tensor):
        return kernels.pack(weight, matrix.bias, gated=gated)
    return kernels.pack_codes(weight, matrix.bias, gated=gated)

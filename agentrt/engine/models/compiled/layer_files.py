"""Files of a decoder whose layers are computed part by part: with experts, or norms of all heads.

Its matrices are those of `native/layer_weights`: gates and ups lie in another order than in the one
native call of dense decoders, but for those of experts, which have a native call of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

from agentrt.engine.models.compiled.layer_norms import add_norms, read_norms
from agentrt.engine.models.compiled.weight_files import WeightReader, WeightWriter
from agentrt.engine.models.native.end_matrices import take_ends
from agentrt.engine.models.native.expert_weights import Weights, plain_weight
from agentrt.engine.models.native.experts import Experts, Gated
from agentrt.engine.models.native.layer import Layer, norm_weight, take_layer
from agentrt.engine.models.native.layer_weights import LayerWeights
from agentrt.engine.models.native.shape import DecoderShape, ExpertShape
from agentrt.engine.ops.expert_offload import ExpertOffload
from agentrt.engine.ops.experts import NativeExperts
from agentrt.engine.ops.linear import Linear, LinearBackend
from agentrt_kernels.contract import HeadNorms
from agentrt_kernels.cpu.experts import PackedExpert
from agentrt_kernels.cpu.kernel_set import CpuKernels
from agentrt_kernels.cpu.linear import NativeLinear

_OF_LAYER = 2
"""Matrices of a layer beside those of its MLP: `qkv` and `out`."""
_BESIDE_EXPERTS = 4
"""Router, and the shared expert with its gate."""


def write_layers(
    shape: DecoderShape,
    weights: Weights,
    backend: LinearBackend,
    folder: Path,
    on_layer: Callable[[int, int], None],
) -> WeightWriter:
    """Write the weights of a checkpoint, which are consumed: memory holds one layer packed.

    Args:
        shape: Shape of the decoder.
        weights: Weights of the decoder.
        backend: Packs the matrices.
        folder: The folder.
        on_layer: Called with the number of layers that are written, and of all.

    Returns:
        What has written them, which knows their forms.

    Raises:
        ValueError: torch multiplies by some matrix, as the native kernels do not take it.
    """
    most = 2 if shape.experts is None else 2 * shape.experts.count + _BESIDE_EXPERTS
    with WeightWriter(folder, (_OF_LAYER + most) * shape.layers + 1) as writer:
        writer.add_plain(norm=norm_weight(shape, plain_weight(weights, "model.norm.weight")))
        embedding, head = take_ends(weights)
        writer.add_embedding(embedding)
        _add(writer, "head", backend.linear(head))
        for number in range(shape.layers):
            at = f"layers.{number}"
            layer = take_layer(shape, weights, number, backend)
            _add(writer, f"{at}.qkv", layer.qkv)
            _add(writer, f"{at}.out", layer.out)
            add_norms(writer, at, layer)
            if isinstance(layer.inner, Experts):
                _add_experts(writer, at, layer.inner)
            else:
                _add_gated(writer, at, layer.inner)
            on_layer(number + 1, shape.layers)
    return writer


def _add_gated(writer: WeightWriter, at: str, inner: Gated[Linear]) -> None:
    _add(writer, f"{at}.gate_up", inner.gate_up)
    _add(writer, f"{at}.down", inner.down)


def _add_experts(writer: WeightWriter, at: str, inner: Experts[Linear]) -> None:
    _add(writer, f"{at}.router", inner.router)
    if not isinstance(inner.routed, NativeExperts):
        _refuse(f"{at}.experts")
    for number, one in enumerate(inner.routed.packed.packed()):
        writer.add_matrix(f"{at}.experts.{number}.gate_up", one.gate_up)
        writer.add_matrix(f"{at}.experts.{number}.down", one.down)
    if inner.shared is not None and inner.shared_gate is not None:
        _add_gated(writer, f"{at}.shared", inner.shared)
        _add(writer, f"{at}.shared.gate", inner.shared_gate)


def _add(writer: WeightWriter, name: str, matrix: Linear) -> None:
    if not isinstance(matrix, NativeLinear):
        _refuse(name)
    writer.add_matrix(name, matrix)


def _refuse(name: str) -> NoReturn:
    raise ValueError(
        f"torch multiplies by {name}, as the native kernels take no odd number of inputs in bf16"
    )


def read_layers(
    kernels: CpuKernels,
    shape: DecoderShape,
    reader: WeightReader,
    parameters: int,
    offload: ExpertOffload | None = None,
) -> LayerWeights:
    """The weights of a compiled model of `parameters` parameters.

    Args:
        kernels: The native kernel set.
        shape: Shape of the decoder.
        reader: Reads the files.
        parameters: Number of parameters.
        offload: Bounds the memory of experts; None leaves all to the mapping.

    Raises:
        ModelInvalid: The files are not those of such a decoder.
        UsageError: The bound is smaller than an expert.
    """
    head = reader.matrix("head", shape.hidden, shape.vocabulary, bits=16)
    layers = [_layer(kernels, shape, reader, number, offload) for number in range(shape.layers)]
    return LayerWeights(
        parameters=parameters,
        embedding=reader.embedding(shape.vocabulary, shape.hidden),
        layers=layers,
        norm=reader.plain("norm", (shape.hidden,)),
        head=head,
        quantised_bytes=reader.quantised_bytes,
        expert_offload=offload,
    )


def _layer(
    kernels: CpuKernels,
    shape: DecoderShape,
    reader: WeightReader,
    number: int,
    offload: ExpertOffload | None,
) -> Layer[Linear]:
    at, norms = f"layers.{number}", read_norms(reader, shape, number)
    query, key, head_norms = norms["query_norm"], norms["key_norm"], None
    if query is not None and key is not None and shape.head_norms != "all":
        head_norms = HeadNorms(query, key, shape.epsilon, shape.centered)
    experts = shape.experts if shape.has_experts(number) else None
    return Layer(
        qkv=reader.matrix(f"{at}.qkv", shape.hidden, shape.query_width + 2 * shape.kv_width),
        out=reader.matrix(f"{at}.out", shape.query_width, shape.hidden),
        head_norms=head_norms,
        inner=_experts(kernels, shape, experts, reader, at, offload)
        if experts
        else _gated(shape, shape.inner, reader, at),
        **norms,
    )


def _gated(shape: DecoderShape, inner: int, reader: WeightReader, at: str) -> Gated[Linear]:
    return Gated(
        reader.matrix(f"{at}.gate_up", shape.hidden, 2 * inner),
        reader.matrix(f"{at}.down", inner, shape.hidden),
        inner,
        shape.activation,
    )


def _experts(
    kernels: CpuKernels,
    shape: DecoderShape,
    experts: ExpertShape,
    reader: WeightReader,
    at: str,
    offload: ExpertOffload | None,
) -> Experts[Linear]:
    def routed() -> Iterator[PackedExpert]:
        for number in range(experts.count):
            of = f"{at}.experts.{number}"
            yield PackedExpert(
                reader.matrix(f"{of}.gate_up", shape.hidden, experts.inner, gated=True),
                reader.matrix(f"{of}.down", experts.inner, shape.hidden),
            )

    shared: Gated[Linear] | None = None
    shared_gate: Linear | None = None
    if experts.shared_inner:
        shared = _gated(shape, experts.shared_inner, reader, f"{at}.shared")
        shared_gate = reader.matrix(f"{at}.shared.gate", shape.hidden, 1)
    return Experts(
        shape=experts,
        router=reader.matrix(f"{at}.router", shape.hidden, experts.count),
        routed=NativeExperts(kernels.pack_experts(routed(), shape.activation))
        if offload is None
        else offload.native(kernels, routed(), shape.activation),
        shared=shared,
        shared_gate=shared_gate,
    )

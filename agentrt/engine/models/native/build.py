"""Builds the network of a decoder shape from weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from agentrt.base.errors import InternalError
from agentrt.engine.models.checkpoint import stored_quantised, tensors
from agentrt.engine.models.native.expert_weights import Weights
from agentrt.engine.models.native.layer_weights import layer_weights
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.native.stack_network import StackNetwork
from agentrt.engine.models.native.stack_weights import fits_stack, stack_weights
from agentrt.engine.models.native.torch_network import TorchNetwork
from agentrt.engine.models.native.weights import own_name, weight_shapes
from agentrt.engine.models.packed_weight import PackedWeight
from agentrt.engine.models.quantisation import EMBEDDING, HEAD, Quantisation
from agentrt.engine.ops.linear import LinearBackend
from agentrt_kernels.contract import Kernels
from agentrt_kernels.cpu.kernel_set import CpuKernels
from agentrt_kernels.quantised_weight import is_e4m3

EngineNetwork = TorchNetwork | StackNetwork


def read_weights(
    shape: DecoderShape,
    path: Path,
    dtype: torch.dtype,
    device: torch.device,
    quantisation: Quantisation | None = None,
) -> Weights:
    """Weights of a checkpoint that has exactly those of `shape`, by their names in the decoder.

    Each is quantised as soon as it is read, so that memory never holds all of them plain. Files
    that are quantised are read beside the CPU, and so is what is quantised here: only codes go to
    the device.
    """
    wanted = weight_shapes(shape)
    is_quantised = quantisation is not None or stored_quantised(path).name
    source = torch.device("cpu") if is_quantised else device
    read = (
        (own, tensor)
        for name, tensor in tensors(path, dtype, source)
        if (own := own_name(shape, name)) is not None and own in wanted
    )
    return _taken(shape, read, quantisation, device)


def random_weights(
    shape: DecoderShape,
    seed: int,
    dtype: torch.dtype,
    device: torch.device,
    quantisation: Quantisation | None = None,
) -> Weights:
    """Random weights of a decoder, drawn on their device: they are too many to move."""
    source = torch.Generator(device).manual_seed(seed)
    drawn = _drawn(shape, source, dtype, device)
    return _taken(shape, drawn, quantisation, device)


def _drawn(
    shape: DecoderShape, source: torch.Generator, dtype: torch.dtype, device: torch.device
) -> Iterator[tuple[str, Tensor]]:
    for name, size in weight_shapes(shape).items():
        if name.endswith("norm.weight"):
            tensor = torch.full(size, 1.0 - shape.norm_offset)
        elif name.endswith("bias"):
            tensor = torch.zeros(size)
        else:
            tensor = torch.empty(size, device=device)
            tensor.normal_(0.0, shape.initial_deviation, generator=source)
        yield name, tensor.to(device, dtype)


def _taken(
    shape: DecoderShape,
    read: Iterable[tuple[str, Tensor | PackedWeight]],
    quantisation: Quantisation | None,
    device: torch.device,
) -> Weights:
    """The weights on their device, in their final precision.

    A tied head is quantised apart from the embedding.
    """
    if quantisation is None:
        return {name: tensor.to(device) for name, tensor in read}
    weights: Weights = {}
    for name, tensor in read:
        if isinstance(tensor, PackedWeight):
            raise InternalError(f"{name} is quantised already")
        weights[name] = quantisation.take(name, tensor).to(device)
        if shape.tied and name == EMBEDDING and quantisation.head_bits is not None:
            weights[HEAD] = quantisation.take(HEAD, tensor).to(device)
    return weights


def with_rows_of_bytes(weights: Weights, *, floats: bool = False) -> Weights:
    """The weights of which those of layers multiply rows of eight bits.

    The head does not: its errors are those of the logits themselves.

    Args:
        weights: By name.
        floats: Whether rows are rounded to FP8, which weights in FP8 alone multiply.
    """

    def rounds(name: str, weight: PackedWeight) -> bool:
        return name not in (EMBEDDING, HEAD) and (not floats or is_e4m3(weight))

    return {
        name: replace(weight, row_bits=8)
        if isinstance(weight, PackedWeight) and rounds(name, weight)
        else weight
        for name, weight in weights.items()
    }


def build_network(
    shape: DecoderShape, weights: Weights, kernels: Kernels, backend: LinearBackend
) -> EngineNetwork:
    """Build the network; consumes `weights`."""
    if isinstance(kernels, CpuKernels) and fits_stack(shape):
        return StackNetwork(shape, stack_weights(shape, weights), kernels)
    return TorchNetwork(shape, layer_weights(shape, weights, backend), kernels)

"""Builds the network of a decoder shape from weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from agentrt.base.errors import InternalError
from agentrt.engine.models.checkpoint import mapped_names, stored_quantised, tensors
from agentrt.engine.models.native.expert_weights import Weights
from agentrt.engine.models.native.layer_weights import layer_weights
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.native.stack_network import StackNetwork
from agentrt.engine.models.native.stack_weights import fits_stack, stack_weights
from agentrt.engine.models.native.torch_network import TorchNetwork
from agentrt.engine.models.native.weight_spill import WeightSpill
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
    *,
    spills: bool = False,
) -> Weights:
    """Weights of a checkpoint that has exactly those of `shape`, by their names in the decoder.

    Each is quantised as soon as it is read, so that memory never holds all of them plain. Files
    that are quantised are read beside the CPU, and so is what is quantised here: only codes go to
    the device.

    Args:
        shape: Shape of the decoder.
        path: The checkpoint.
        dtype: Type of weights that are not quantised.
        device: Device of the weights.
        quantisation: Formats of the matrices, or None.
        spills: Whether those of experts stay out of memory: mapped from the checkpoint or from
            another file, beside the CPU.
    """
    wanted = weight_shapes(shape)
    is_quantised = quantisation is not None or stored_quantised(path).name
    source = torch.device("cpu") if is_quantised or spills else device
    spill = None
    if spills:
        mapped = set() if quantisation is not None else mapped_names(path, dtype)
        spill = WeightSpill(shape.names, {own_name(shape, name) or "" for name in mapped})
    read = (
        (own, tensor)
        for name, tensor in tensors(path, dtype, source)
        if (own := own_name(shape, name)) is not None and own in wanted
    )
    return _taken(shape, read, quantisation, device, spill)


def random_weights(
    shape: DecoderShape,
    seed: int,
    dtype: torch.dtype,
    device: torch.device,
    quantisation: Quantisation | None = None,
    *,
    spills: bool = False,
) -> Weights:
    """Random weights of a decoder, drawn on their device: they are too many to move.

    Those of experts may stay out of memory; see `read_weights`.
    """
    source = torch.Generator(device).manual_seed(seed)
    drawn = _drawn(shape, source, dtype, device)
    spill = WeightSpill(shape.names, ()) if spills else None
    return _taken(shape, drawn, quantisation, device, spill)


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
    spill: WeightSpill | None,
) -> Weights:
    """The weights on their device, in their final precision.

    A tied head is quantised apart from the embedding.
    """
    weights: Weights = {}
    for name, tensor in read:
        taken = tensor
        if quantisation is not None:
            if isinstance(tensor, PackedWeight):
                raise InternalError(f"{name} is quantised already")
            taken = quantisation.take(name, tensor)
            if shape.tied and name == EMBEDDING and quantisation.head_bits is not None:
                weights[HEAD] = quantisation.take(HEAD, tensor).to(device)
        spills = spill is not None and spill.wants(name)
        weights[name] = spill.take(name, taken) if spill and spills else taken.to(device)
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
    if isinstance(kernels, CpuKernels) and fits_stack(shape, backend.dtype):
        return StackNetwork(shape, stack_weights(shape, weights), kernels)
    return TorchNetwork(shape, layer_weights(shape, weights, backend), kernels)

"""From a shape and weights to what computes them."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from agentrt.engine.models.checkpoint import tensors
from agentrt.engine.models.native.decoder import TorchNetwork
from agentrt.engine.models.native.native import NativeNetwork, is_native
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.native.weights import weights_of
from agentrt.engine.ops.linear import LinearBackend
from agentrt_kernels.contract import Kernels
from agentrt_kernels.cpu.kernel_set import CpuKernels

KnownDecoder = TorchNetwork | NativeNetwork


def read_weights(
    shape: DecoderShape, path: Path, dtype: torch.dtype, device: torch.device
) -> dict[str, Tensor]:
    """Of a checkpoint whose weights are exactly those of `shape`."""
    wanted = weights_of(shape)
    return {name: tensor for name, tensor in tensors(path, dtype, device) if name in wanted}


def random_weights(
    shape: DecoderShape, seed: int, dtype: torch.dtype, device: torch.device
) -> dict[str, Tensor]:
    """Of a decoder that has learned nothing; drawn where they stay, as that is many to move."""
    source = torch.Generator(device).manual_seed(seed)
    weights: dict[str, Tensor] = {}
    for name, size in weights_of(shape).items():
        if name.endswith("norm.weight"):
            tensor = torch.ones(size)
        elif name.endswith(".bias"):
            tensor = torch.zeros(size)
        else:
            tensor = torch.empty(size, device=device)
            tensor.normal_(0.0, shape.initial_deviation, generator=source)
        weights[name] = tensor.to(device, dtype)
    return weights


def build_decoder(
    shape: DecoderShape, weights: dict[str, Tensor], kernels: Kernels, door: LinearBackend
) -> KnownDecoder:
    """The decoder; `weights` are taken apart."""
    if isinstance(kernels, CpuKernels) and is_native(shape):
        return NativeNetwork(shape, weights, kernels)
    return TorchNetwork(shape, weights, kernels, door)

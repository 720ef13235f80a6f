"""Weights of a dense decoder as its native call takes them, layer after layer.

They come from a checkpoint's weights here, and from a compiled model in `models/compiled`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor

from agentrt.base.errors import InternalError
from agentrt.engine.models.native.end_matrices import take_ends
from agentrt.engine.models.native.expert_weights import Weights, plain_weight
from agentrt.engine.models.native.experts import Gated
from agentrt.engine.models.native.layer import norm_weight, take_layer
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.native.weights import parameter_count
from agentrt.engine.models.packed_embedding import PackedEmbedding
from agentrt.engine.models.packed_weight import PackedWeight
from agentrt_kernels.contract import Activation
from agentrt_kernels.cpu.experts import ExpertMatrices
from agentrt_kernels.cpu.linear import NativeLinear, fits_width
from agentrt_kernels.cpu.stack import Matrix, StackLayer


@dataclass(frozen=True, slots=True)
class StackWeights:
    """Weights of a dense decoder.

    Attributes:
        parameters: Number of parameters.
        embedding: `[vocabulary, hidden]`, or what makes its rows.
        layers: From the first to the last; drawn once.
        norm: `[hidden]` behind the last layer.
        head: `[vocabulary, hidden]`, plain, quantised or packed.
    """

    parameters: int
    embedding: Tensor | PackedEmbedding
    layers: Iterable[StackLayer]
    norm: Tensor
    head: Tensor | PackedWeight | NativeLinear


class UnpackedMatrices:
    """Leaves matrices as they are: the native call packs them."""

    def linear(self, weight: Tensor | PackedWeight, bias: Tensor | None = None) -> Matrix:
        """See `MatrixFormat`."""
        return Matrix(weight, bias)

    def experts(self, experts: Iterable[ExpertMatrices], activation: Activation) -> NoReturn:
        """Refuse experts, which the native call does not compute."""
        raise InternalError("the native call computes no experts")


def stack_weights(shape: DecoderShape, weights: Weights) -> StackWeights:
    """The weights of a checkpoint by name, which are consumed, the layers as they are drawn.

    Args:
        shape: Shape of the decoder; `fits_stack` holds for it.
        weights: Weights of one dtype or quantised. A tied model has a head of its own only if that
            is quantised.
    """
    parameters = parameter_count(shape, weights)
    embedding, head = take_ends(weights)
    return StackWeights(
        parameters=parameters,
        embedding=embedding,
        layers=_layers(shape, weights),
        norm=norm_weight(shape, plain_weight(weights, "model.norm.weight")),
        head=head,
    )


def fits_stack(shape: DecoderShape, dtype: torch.dtype) -> bool:
    """Whether the native call implements all parts of this shape.

    Args:
        shape: The shape.
        dtype: Type of weights that are not quantised, whose widths have to be even in bf16.
    """
    widths = (shape.hidden, shape.query_width, shape.inner)
    has_widths = all(fits_width(width, dtype) for width in widths)
    return has_widths and shape.experts is None and shape.head_norms != "all"


def _layers(shape: DecoderShape, weights: Weights) -> Iterator[StackLayer]:
    for number in range(shape.layers):
        yield stack_layer(shape, weights, number)


def stack_layer(shape: DecoderShape, weights: Weights, number: int) -> StackLayer:
    """Layer `number` as the native call takes it; its weights are removed."""
    layer = take_layer(shape, weights, number, UnpackedMatrices())
    assert isinstance(layer.inner, Gated)
    return StackLayer(
        norm=layer.norm,
        out_norm=layer.out_norm,
        qkv=layer.qkv,
        query_norm=layer.query_norm,
        key_norm=layer.key_norm,
        out=layer.out,
        inner_norm=layer.inner_norm,
        inner_out_norm=layer.inner_out_norm,
        gate_up=layer.inner.gate_up,
        down=layer.inner.down,
        score=layer.score,
    )

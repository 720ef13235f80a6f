"""Weights of a decoder whose layers are computed part by part, each matrix in its final format.

They come from a checkpoint's weights here, and from a compiled model in `models/compiled`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from agentrt.engine.models.native.end_matrices import take_ends
from agentrt.engine.models.native.expert_weights import Weights, bias_of
from agentrt.engine.models.native.layer import Layer, norm_weight, take_layer
from agentrt.engine.models.native.shape import DecoderShape
from agentrt.engine.models.native.weights import parameter_count
from agentrt.engine.models.packed_embedding import PackedEmbedding
from agentrt.engine.ops.expert_offload import ExpertOffload
from agentrt.engine.ops.linear import Linear, LinearBackend


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """Weights of a decoder.

    Attributes:
        parameters: Number of parameters.
        embedding: `[vocabulary, hidden]`, or what makes its rows.
        layers: From the first to the last.
        norm: `[hidden]` behind the last layer; None for the stream as it is.
        head: Output layer.
        quantised_bytes: Bytes of layers and head that stay quantised.
        expert_offload: Bounded memory for experts, or None if all are in memory.
    """

    parameters: int
    embedding: Tensor | PackedEmbedding
    layers: Sequence[Layer[Linear]]
    norm: Tensor | None
    head: Linear
    quantised_bytes: int
    expert_offload: ExpertOffload | None = None


def layer_weights(shape: DecoderShape, weights: Weights, backend: LinearBackend) -> LayerWeights:
    """The weights of a checkpoint by name, which are consumed.

    Args:
        shape: Shape of the decoder.
        weights: Weights of one dtype and device, or quantised.
        backend: Chooses the format of its matrices.
    """
    parameters = parameter_count(shape, weights)
    embedding, head = take_ends(weights)
    norm = bias_of(weights, "model.norm.weight")
    made = backend.linear(head)
    layers = [take_layer(shape, weights, at, backend) for at in range(shape.layers)]
    return LayerWeights(
        parameters=parameters,
        embedding=embedding,
        layers=layers,
        norm=None if norm is None else norm_weight(shape, norm),
        head=made,
        quantised_bytes=backend.quantised_bytes,
        expert_offload=backend.offload,
    )

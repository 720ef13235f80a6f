"""The first and the last matrix of a decoder, each as a checkpoint stores it."""

from __future__ import annotations

from torch import Tensor

from agentrt.engine.models.native.expert_weights import Weights
from agentrt.engine.models.packed_embedding import PackedEmbedding
from agentrt.engine.models.packed_weight import PackedWeight
from agentrt.engine.models.quantisation import EMBEDDING, HEAD


def take_ends(weights: Weights) -> tuple[Tensor | PackedEmbedding, Tensor | PackedWeight]:
    """The embedding `[V, W]` and the head `[V, W]`, removed from `weights`.

    A tied head is the embedding. The rows of a quantised embedding have the type of the norms,
    which are never quantised.
    """
    dtype = next(weight.dtype for weight in weights.values() if isinstance(weight, Tensor))
    embedding = weights.pop(EMBEDDING)
    head = weights.pop(HEAD, embedding)
    if isinstance(embedding, PackedWeight):
        return PackedEmbedding(embedding, dtype), head
    return embedding, head

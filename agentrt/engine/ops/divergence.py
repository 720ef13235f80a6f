"""Kullback-Leibler divergence of a model's next tokens from those of another.

It is what it costs, in nats a token, to take the other model's probabilities for those of the
reference. All is computed in fp64, so callers hand over as many rows as they have room for.
"""

from __future__ import annotations

import torch
from torch import Tensor

from agentrt.base.errors import InternalError


def log_shares(logits: Tensor) -> Tensor:
    """Logarithms of the probabilities `[tokens, vocabulary]`, in fp64.

    Raises:
        InternalError: The logits are not numbers.
    """
    found = torch.log_softmax(logits.double(), -1)
    if not bool(torch.isfinite(found).all()):
        raise InternalError("the model computed logits that are not numbers")
    return found


def divergences(reference: Tensor, other: Tensor) -> Tensor:
    """The divergence at each token `[tokens]`, by the `log_shares` of both models."""
    return (reference.exp() * (reference - other)).sum(-1)


def same_top(reference: Tensor, other: Tensor) -> Tensor:
    """Whether both find the same token likeliest `[tokens]`, by logits or `log_shares`."""
    return reference.argmax(-1) == other.argmax(-1)

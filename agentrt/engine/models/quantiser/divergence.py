"""Kullback-Leibler divergence of a model's next tokens from those of another."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_ROWS = 64
"""Rows that are widened to fp64 at once."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """How far a model's predictions are from those of a reference, over some tokens.

    Attributes:
        kl_nats: Mean KL divergence of its distribution from the reference's, in nats a token.
        same_top: Share of the tokens after which both have the same most likely token.
        tokens: Tokens over which both are means.
    """

    kl_nats: float
    same_top: float
    tokens: int


class DivergenceSum:
    """Sums the divergence over batches."""

    def __init__(self) -> None:
        self._kl = 0.0
        self._same = 0
        self._tokens = 0

    def add(self, reference: Tensor, other: Tensor) -> None:
        """Count some tokens, by the logits `[tokens, vocabulary]` of both models."""
        self._same += int((reference.argmax(-1) == other.argmax(-1)).sum())
        self._tokens += reference.shape[0]
        for start in range(0, reference.shape[0], _ROWS):
            expected = torch.log_softmax(reference[start : start + _ROWS].double(), -1)
            found = torch.log_softmax(other[start : start + _ROWS].double(), -1)
            self._kl += float((expected.exp() * (expected - found)).sum())

    def mean(self) -> Divergence:
        """The means so far; at least one token has been counted."""
        return Divergence(self._kl / self._tokens, self._same / self._tokens, self._tokens)

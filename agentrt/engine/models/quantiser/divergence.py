"""Mean divergence of a model's next tokens from those of another, over batches."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from agentrt.engine.ops.divergence import divergences, log_shares, same_top

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
        """Count some tokens, by the logits `[tokens, vocabulary]` of both models.

        Raises:
            InternalError: A model computed logits that are not numbers.
        """
        self._same += int(same_top(reference, other).sum())
        self._tokens += reference.shape[0]
        for start in range(0, reference.shape[0], _ROWS):
            rows = slice(start, start + _ROWS)
            known, found = log_shares(reference[rows]), log_shares(other[rows])
            self._kl += float(divergences(known, found).sum())

    def mean(self) -> Divergence:
        """The means so far; at least one token has been counted."""
        return Divergence(self._kl / self._tokens, self._same / self._tokens, self._tokens)

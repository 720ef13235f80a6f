"""Distance of two models over the same tokens: of their logits, and of their layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentrt.engine.ops.divergence import divergences, log_shares, same_top
from agentrt.engine.runner.text_logits import TextPiece, TextRunner

_BLOCK_VALUES = 1 << 21
"""Logits that are held in fp64 at once."""

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ChunkScore:
    """Scores of a chunk by a model, and the distance of another model from it.

    Attributes:
        loss: Negative log-likelihood of each scored token, in nats `[tokens]`.
        other_loss: Loss of the other model; empty without one.
        divergence: Kullback-Leibler divergence of the other model at each token, in nats.
        same_top: 1 where both find the same token likeliest, else 0.
        layer_errors: Sum of the squared differences of each layer's output `[layers]`; empty if the
            layers do not correspond.
        layer_squares: Sum of the squares of each layer's output in the first model `[layers]`.
    """

    loss: Values
    other_loss: Values
    divergence: Values
    same_top: Values
    layer_errors: Values
    layer_squares: Values


def score_chunk(
    model: TextRunner,
    other: TextRunner | None,
    token_ids: Sequence[int],
    *,
    first: int,
    vocabulary: int,
) -> ChunkScore:
    """Score a chunk by a model, and by another one that is held against it.

    Args:
        model: The reference.
        other: The model that is held against it, or None.
        token_ids: The chunk, at most as long as both runners allow.
        first: First scored token, from 1 on.
        vocabulary: Token ids in use; logits behind them belong to no token.

    Raises:
        InternalError: A model computed logits that are not numbers.
    """
    loss: list[Tensor] = []
    other_loss: list[Tensor] = []
    divergence: list[Tensor] = []
    same: list[Tensor] = []
    compared = other is not None and (other.layers, other.width) == (model.layers, model.width)
    layers = model.layers if compared else 0
    errors, squares = torch.zeros(layers, dtype=torch.float64), torch.zeros(layers).double()
    others = None if other is None else other.pieces(token_ids, first)
    at = first
    for piece in model.pieces(token_ids, first):
        count = len(piece.logits)
        wanted = torch.tensor(token_ids[at : at + count])
        at += count
        theirs = None if others is None else next(others)
        block = max(1, _BLOCK_VALUES // vocabulary)
        for start in range(0, count, block):
            rows = slice(start, start + block)
            known = log_shares(piece.logits[rows, :vocabulary])
            ids = wanted[rows].to(known.device)[:, None]
            loss.append(-known.gather(1, ids)[:, 0])
            if theirs is None:
                continue
            found = log_shares(theirs.logits[rows, :vocabulary].to(known.device))
            other_loss.append(-found.gather(1, ids)[:, 0])
            divergence.append(divergences(known, found))
            same.append(same_top(known, found))
        if layers and theirs is not None:
            _add_squares(piece, theirs, errors, squares)
    return ChunkScore(
        _joined(loss),
        _joined(other_loss),
        _joined(divergence),
        _joined(same),
        errors.numpy(),
        squares.numpy(),
    )


def _add_squares(piece: TextPiece, theirs: TextPiece, errors: Tensor, squares: Tensor) -> None:
    """Add the squares of a piece layer by layer: all at once would be as large as the outputs."""
    for layer, (known, found) in enumerate(zip(piece.layers, theirs.layers, strict=True)):
        errors[layer] += (found.to(known.device) - known).square().sum(dtype=torch.float64).cpu()
        squares[layer] += known.square().sum(dtype=torch.float64).cpu()


def _joined(parts: list[Tensor]) -> Values:
    if not parts:
        return np.zeros(0)
    return np.asarray(torch.cat(parts).double().cpu().numpy())

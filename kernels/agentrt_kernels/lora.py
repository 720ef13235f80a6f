"""Low-rank adapters (LoRA) of linears, and their reference: rows of several adapters in a batch.

An adapter adds `up @ (scales * (down @ x))` to the product of a matrix. What computes several
matrices in one, such as queries, keys and values, has their ranks one behind the other, and each
output sees those of its own matrix.

Letters of the shapes: T rows, W inputs, N outputs, R ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class RankSpan(NamedTuple):
    """Outputs of a matrix and the ranks that they see, each from the first to before `past`."""

    first_output: int
    past_output: int
    first_rank: int
    past_rank: int


@dataclass(frozen=True, slots=True)
class LowRank:
    """The part of one adapter in one linear.

    Attributes:
        down: `[R, W]` of the rows' dtype.
        scales: `[R]` fp32.
        up: `[N, R]` of the rows' dtype; zero for ranks that an output does not see.
        spans: Which outputs see which ranks.
    """

    down: Tensor
    scales: Tensor
    up: Tensor
    spans: tuple[RankSpan, ...]


@dataclass(frozen=True, slots=True)
class LayerLowRank:
    """The part of one adapter in one layer; None leaves a linear alone.

    Attributes:
        qkv: In the projections of queries, keys and values.
        out: In the output projection of attention.
        gate_up: In the gate and up projections.
        down: In the down projection.
    """

    qkv: LowRank | None = None
    out: LowRank | None = None
    gate_up: LowRank | None = None
    down: LowRank | None = None


LINEARS = ("qkv", "out", "gate_up", "down")
"""Linears of a layer that adapters change, as `LayerLowRank` names them."""


def add_low_rank(
    x: Tensor, out: Tensor, matrices: Sequence[LowRank | None], adapters: Tensor
) -> None:
    """Add the adapters' parts to the product of a linear: the reference of all kernels.

    Args:
        x: `[T, W]`.
        out: `[T, N]`, the product without adapters.
        matrices: Parts by adapter, from number 1 on.
        adapters: `[T]` int32, the adapter of each row; 0 is none.
    """
    for number in sorted(set(adapters.tolist())):
        matrix = matrices[number - 1] if number else None
        if matrix is None:
            continue
        rows = torch.nonzero(adapters == number).flatten()
        lowered = x[rows].float() @ matrix.down.float().t() * matrix.scales
        raised = lowered @ matrix.up.float().t()
        out[rows] = (out[rows].float() + raised).to(out.dtype)

"""Second moments and mean sizes of the inputs of a matrix, summed over calibration tokens.

Letters of the shapes: T tokens, W inputs.
"""

from __future__ import annotations

import torch
from torch import Tensor


class InputStatistics:
    """Statistics of the inputs that some matrices share.

    Args:
        width: W.

    Attributes:
        tokens: Tokens so far.
    """

    def __init__(self, width: int) -> None:
        self.tokens = 0
        self._products = torch.zeros((width, width))
        self._sizes = torch.zeros(width)

    def add(self, x: Tensor) -> None:
        """Count the inputs `[T, W]` of some tokens."""
        x = x.float()
        self.tokens += x.shape[0]
        self._products.addmm_(x.t(), x)
        self._sizes += x.abs().sum(0)

    @property
    def hessian(self) -> Tensor:
        """fp32 `[W, W]`, mean of the outer products: the Hessian of the squared output error."""
        return self._products / max(self.tokens, 1)

    @property
    def mean_size(self) -> Tensor:
        """fp32 `[W]`, mean of the absolute inputs."""
        return self._sizes / max(self.tokens, 1)


def output_error(change: Tensor, hessian: Tensor) -> float:
    """Mean squared error of a token's outputs, summed over them, if a matrix changes.

    Args:
        change: fp32 `[N, W]`, difference of the matrices.
        hessian: fp32 `[W, W]` of their inputs.
    """
    return float((change @ hessian).mul_(change).sum())

"""Linears of experts one after the other: each reads its weights once, if it has rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Protocol, TypeVar

from torch import Tensor

from agentrt_kernels.contract import CodeLinear
from agentrt_kernels.quantised_weight import QuantisedWeight

CodesT = TypeVar("CodesT", bound=CodeLinear)


class ExpertLinear(Protocol):
    """The linear of one expert."""

    def apply(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """`x` `[T, W]` to `[T, N]`, which may be written to `out`."""
        ...


class LoopedExperts:
    """Linears of experts, in a loop that reads the rows of each back: for CPUs and references.

    Args:
        experts: One linear an expert.
    """

    def __init__(self, experts: Sequence[ExpertLinear]) -> None:
        self._experts = experts

    def apply(self, x: Tensor, expert_start: Tensor, out: Tensor) -> Tensor:
        """`x` `[T, W]`, sorted by expert, to `out` `[T, N]`; see `Kernels.grouped_linear`."""
        for expert, (start, stop) in enumerate(pairwise(expert_start.tolist())):
            if start < stop:
                part = out[start:stop]
                made = self._experts[expert].apply(x[start:stop], part)
                if made is not part:
                    part.copy_(made)
        return out


class LoopedCodes(LoopedExperts):
    """The same of quantised matrices.

    Args:
        experts: One linear an expert.

    Attributes:
        resident_bytes: Bytes of the weights as they are kept.
    """

    def __init__(self, experts: Sequence[CodeLinear]) -> None:
        super().__init__(experts)
        self.resident_bytes = sum(one.resident_bytes for one in experts)


def packed_each(
    pack: Callable[[QuantisedWeight, Tensor | None], CodesT],
    weights: Sequence[QuantisedWeight],
    biases: Tensor | None,
) -> list[CodesT]:
    """Linears of a set that lays out the matrix of each expert by itself, as `pack` does."""
    rows = [None] * len(weights) if biases is None else list(biases)
    return [pack(*both) for both in zip(weights, rows, strict=True)]

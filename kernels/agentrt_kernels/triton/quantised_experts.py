"""Matrices of all experts of a layer, which stay quantised on the device: one launch multiplies.

Letters of the shapes: T rows, N outputs, K inputs, E experts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from agentrt_kernels.quantised_weight import QuantisedWeight
from agentrt_kernels.triton.dequantised_gemm import Codes
from agentrt_kernels.triton.quantised import ProductSettings, QuantisedProduct, codes_of


@dataclass(frozen=True, slots=True)
class QuantisedExperts:
    """A linear of each expert.

    Attributes:
        product: The matrices.
        order: Input of a row that each input of an expert's weight takes, `[E, K]`, or None.
    """

    product: QuantisedProduct
    order: Tensor | None

    @property
    def resident_bytes(self) -> int:
        """Bytes of the weights as they are kept."""
        return self.product.resident_bytes + (0 if self.order is None else self.order.nbytes)

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """See `MovableLinear.parts`."""
        codes = self.product.codes
        optional = codes.scales, codes.zeros, self.product.bias, self.order
        return (codes.values, codes.factors, *(one for one in optional if one is not None))

    def over(self, parts: Sequence[Tensor]) -> QuantisedExperts:
        """See `MovableLinear.over`."""
        codes, bias = self.product.codes, self.product.bias
        values, factors, *optional = parts
        rest = iter(optional)

        def moved(part: Tensor | None) -> Tensor | None:
            return None if part is None else next(rest)

        codes = replace(
            codes,
            values=values,
            factors=factors,
            scales=moved(codes.scales),
            zeros=moved(codes.zeros),
            table=None if codes.table is None else codes.table.to(values.device),
        )
        return QuantisedExperts(
            replace(self.product, codes=codes, bias=moved(bias)), moved(self.order)
        )

    def apply(self, x: Tensor, expert_start: Tensor, out: Tensor) -> Tensor:
        """See `CodeExperts.apply`."""
        if self.order is not None:
            x = self._reordered(x, expert_start, self.order)
        self.product.multiply(x, out, expert_start)
        return out

    def _reordered(self, x: Tensor, expert_start: Tensor, order: Tensor) -> Tensor:
        """The rows with their inputs in the order of each one's expert; any for rows of none."""
        row = torch.arange(x.shape[0], device=x.device, dtype=expert_start.dtype)
        expert = torch.searchsorted(expert_start[1:], row, right=True)
        return x.gather(1, order.index_select(0, expert.clamp_(max=order.shape[0] - 1)))


def pack_expert_codes(
    settings: ProductSettings, weights: Sequence[QuantisedWeight], biases: Tensor | None
) -> QuantisedExperts:
    """Lay out one quantised matrix `[N, K]` of each expert, side by side; they stay in codes.

    Args:
        settings: Set that multiplies.
        weights: E of them.
        biases: `[E, N]`, or None.

    Raises:
        ValueError: Nothing computes by them, or they differ in more than their values.

    Example:
        `pack_expert_codes(kernels, weights, None).apply(x, expert_start, out)`
    """
    rounds_rows = {weight.row_bits == 8 for weight in weights}
    orders = [weight.order.long() for weight in weights if weight.order is not None]
    if len(rounds_rows) > 1 or len(orders) not in (0, len(weights)):
        raise ValueError(_DIFFERENT)
    codes = _stacked([codes_of(weight) for weight in weights])
    product = QuantisedProduct(codes, biases, rounds_rows.pop(), settings)
    return QuantisedExperts(product, torch.stack(orders) if orders else None)


_DIFFERENT = "the matrices of a layer's experts differ in bits, groups, zeros or tables"


def _stacked(parts: Sequence[Codes]) -> Codes:
    """All tensors but the table with a dimension in front."""
    first = parts[0]
    if any(_form(one) != _form(first) for one in parts):
        raise ValueError(_DIFFERENT)
    tables = [one.table for one in parts if one.table is not None]
    if not all(torch.equal(one, tables[0]) for one in tables):
        raise ValueError(_DIFFERENT)
    return replace(
        first,
        values=torch.stack([one.values for one in parts]),
        scales=_stacked_or_none([one.scales for one in parts]),
        zeros=_stacked_or_none([one.zeros for one in parts]),
        factors=torch.stack([one.factors for one in parts]),
    )


def _form(codes: Codes) -> tuple[object, ...]:
    held = (codes.scales, codes.zeros, codes.table)
    which = tuple(one is not None for one in held)
    kinds = codes.is_e4m3, codes.is_e2m1
    return (codes.bits, codes.group, codes.middle, *kinds, codes.values.shape, *which)


def _stacked_or_none(parts: Sequence[Tensor | None]) -> Tensor | None:
    held = [one for one in parts if one is not None]
    return torch.stack(held) if held else None

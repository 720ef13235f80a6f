"""Form of packed weights: what has to be equal in matrices that are computed as one.

Queries, keys and values are one product, and so are gates and ups. A checkpoint may hold them in
different forms; each can be written in a wider one without a loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal

import torch

from agentrt.base.errors import InternalError
from agentrt.engine.models.packed_weight import PackedWeight

Bits = Literal[4, 8]


@dataclass(frozen=True, slots=True)
class PackedForm:
    """Form of packed weights; only equal ones can be computed in one product.

    Attributes:
        bits: Bits of a code.
        group: Inputs that share a scale.
        has_zeros: Whether groups have zeros of their own.
        has_table: Whether codes stand for the values of a table.
    """

    bits: Bits
    group: int
    has_zeros: bool
    has_table: bool = False

    def joined(self, other: PackedForm) -> PackedForm:
        """The form in which both can be written without a loss.

        Raises:
            InternalError: One stands for values of a table, and the other does not.
        """
        if (self.bits, self.has_table) != (other.bits, other.has_table) and (
            self.has_table or other.has_table
        ):
            raise InternalError("codes of a table are written in no other form")
        bits: Bits = 8 if 8 in (self.bits, other.bits) else 4
        has_zeros = self.has_zeros or other.has_zeros
        return PackedForm(bits, math.gcd(self.group, other.group), has_zeros, self.has_table)


def widened(weight: PackedWeight, form: PackedForm) -> PackedWeight:
    """The same values in a form that `joined` has given; its groups divide those of the weight."""
    zeros, middle = weight.zeros, 8 if weight.bits == 4 else 0
    if form.has_zeros and zeros is None:
        zeros = torch.full_like(weight.scales, middle)
    times, inputs = weight.group // form.group, weight.shape[1]
    groups = -(-inputs // form.group)  # the last group of a row may be shorter
    scales = weight.scales.repeat_interleave(times, dim=1)[:, :groups]
    if zeros is not None:
        zeros = zeros.repeat_interleave(times, dim=1)[:, :groups]
    if form.bits == weight.bits:
        return replace(weight, scales=scales, zeros=zeros, group=form.group)
    signed = weight.codes().to(torch.int8) - middle
    zeros = None if zeros is None else zeros - middle
    return replace(weight, bits=8, values=signed, scales=scales, zeros=zeros, group=form.group)


def form_of(weight: PackedWeight) -> PackedForm:
    """The form of a weight."""
    has_table = weight.table is not None
    return PackedForm(weight.bits, weight.group, weight.zeros is not None, has_table)


def in_one_form(weights: Sequence[PackedWeight]) -> list[PackedWeight]:
    """The same weights in the narrowest form that all of them can be written in."""
    form = reduce(PackedForm.joined, map(form_of, weights))
    return [one if form_of(one) == form else widened(one, form) for one in weights]

"""Codes of published tensors as a packed weight keeps them; none of them is turned into a number.

Letters of the shapes: N outputs, W inputs, G groups of inputs in a row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from agentrt.engine.models.packed_weight import PackedWeight
from agentrt.engine.models.published.stored_format import StoredMatrix
from agentrt_kernels.cpu.nibbles import pack_nibbles, unpack_nibbles

Bits = Literal[4, 8]
_BLOCK_CODES = 1 << 20


def bytes_of_words(words: Tensor) -> Tensor:
    """The bytes of words `[N, n]` of 32 bits from the lowest on, uint8 `[N, 4 * n]`."""
    return words.contiguous().view(torch.uint8)


def codes_of_words(words: Tensor, bits: Bits) -> Tensor:
    """Unsigned codes of words `[N, n]` from the lowest bits on, uint8 `[N, n * 32 / bits]`."""
    raw = bytes_of_words(words)
    return raw if bits == 8 else unpack_nibbles(raw)


def kept_codes(raw: Tensor, bits: Bits) -> Tensor:
    """Bytes of unsigned codes `[N, W * bits / 8]` as a packed weight keeps them."""
    return raw if bits == 4 else (raw ^ 128).view(torch.int8)


def in_blocks(rows: int, width: int, make: Callable[[slice], Tensor]) -> Tensor:
    """Rows that are made a block at a time, so that little is held twice."""
    block = max(1, _BLOCK_CODES // max(1, width))
    return torch.cat([make(slice(at, at + block)) for at in range(0, rows, block)])


def input_order(matrix: StoredMatrix, part: str, group: int) -> Tensor | None:
    """The inputs sorted by their groups, int32 `[W]`; None if they lie so already.

    Args:
        matrix: The matrix.
        part: Part with the group of each input, `[W]`; a matrix may lack it.
        group: Inputs of a group.

    Raises:
        ModelInvalid: Groups are of other sizes.
    """
    if part not in matrix:
        return None
    groups = matrix.tensor(part)
    order = groups.argsort(stable=True)
    wanted = torch.arange(len(groups), device=groups.device) // group
    if not torch.equal(groups[order].to(wanted.dtype), wanted):
        raise matrix.invalid(f"has inputs in groups that are not of {group} each")
    if torch.equal(order, torch.arange(len(order), device=order.device)):
        return None
    return order.to(torch.int32)


def reordered_inputs(values: Tensor, bits: Bits, order: Tensor) -> Tensor:
    """Kept codes with their inputs in another order."""
    index = order.long()
    if bits == 8:
        return values[:, index]

    def block(rows: slice) -> Tensor:
        return pack_nibbles(unpack_nibbles(values[rows])[:, index])

    return in_blocks(values.shape[0], values.shape[1] * 2, block)


def packed_weight(
    values: Tensor,
    bits: Bits,
    scales: Tensor,
    zeros: Tensor | None,
    order: Tensor | None,
    group: int,
) -> PackedWeight:
    """The packed weight of kept codes.

    Args:
        values: As `PackedWeight` has them, but for the order of inputs.
        bits: Bits of a code.
        scales: `[N, G]`, of any float type.
        zeros: Codes that stand for zero `[N, G]`, unsigned for 4 bits and signed for 8, or None.
        order: Inputs sorted by their groups, or None.
        group: Inputs of a group.
    """
    if order is not None:
        values = reordered_inputs(values, bits, order)
    if scales.dtype is not torch.float16:
        scales = scales.float()
    if zeros is not None:
        zeros = zeros.to(torch.float16)  # whole numbers to 256: exact
    return PackedWeight(bits, values.contiguous(), scales.contiguous(), zeros, group, order=order)

"""From the blocks of a GGUF file's quantised types to packed weights, value by value.

Blocks keep their integers. Types of five and six bits take a byte a value, and products of two
scales are written out; nothing is rounded again.

Letters of the shapes: N rows, B blocks of a row, S groups of a block.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from agentrt.engine.models.packed_form import PackedForm
from agentrt.engine.models.packed_weight import PackedWeight
from agentrt_kernels.cpu.nibbles import pack_nibbles

_Blocks = tuple[Tensor, Tensor, Tensor | None]
"""Codes int16 `[N, B, values]`, scales `[N, B, S]`, and what is subtracted `[N, B, S]`, or None."""


def packed_blocks(raw: Tensor, kind: str) -> PackedWeight:
    """The packed weight of blocks.

    Args:
        raw: The file's bytes, uint8 `[N, bytes of a row]`.
        kind: Name of their type, a key of `PACKED_FORMS`.
    """
    form, (block_bytes, read) = PACKED_FORMS[kind], _READERS[kind]
    codes, scales, minima = read(raw.view(raw.shape[0], -1, block_bytes))
    scales, zeros = scales.flatten(1), None
    if minima is not None:
        minima = minima.flatten(1)
        flat = scales == 0  # a group of one value: code 0 with a zero of one step
        codes = codes.flatten(1).view(raw.shape[0], -1, form.group)
        codes = codes.masked_fill(flat[..., None], 0)
        zeros = torch.where(flat, 1.0, minima / torch.where(flat, 1.0, scales))
        scales = torch.where(flat, minima, scales)
    codes = codes.flatten(1)
    if form.bits == 8:
        return PackedWeight(8, codes.to(torch.int8), scales, zeros, form.group)
    return PackedWeight(4, pack_nibbles(codes.to(torch.uint8)), scales, zeros, form.group)


def _halves(raw: Tensor) -> Tensor:
    """The number of sixteen bits at the beginning of blocks, fp32 `[N, B, 1]`."""
    return raw[..., :2].contiguous().view(torch.float16).float()


def _nibbles(raw: Tensor) -> Tensor:
    """Lower and then upper halves of bytes `[N, B, n]`, int16 `[N, B, 2 * n]`."""
    return torch.cat((raw & 15, raw >> 4), dim=-1).to(torch.int16)


def _fifth_bits(raw: Tensor) -> Tensor:
    """Bits of four bytes from the lowest on, each as 16, int16 `[N, B, 32]`."""
    bits = raw[..., None] >> torch.arange(8, dtype=torch.uint8) & 1
    return bits.flatten(-2).to(torch.int16) << 4


def _q8_0(raw: Tensor) -> _Blocks:
    return raw[..., 2:].view(torch.int8).to(torch.int16), _halves(raw), None


def _q4_0(raw: Tensor) -> _Blocks:
    return _nibbles(raw[..., 2:]), _halves(raw), None


def _q4_1(raw: Tensor) -> _Blocks:
    return _nibbles(raw[..., 4:]), _halves(raw), -_halves(raw[..., 2:])


def _q5_0(raw: Tensor) -> _Blocks:
    return _nibbles(raw[..., 6:]) + _fifth_bits(raw[..., 2:6]) - 16, _halves(raw), None


def _q5_1(raw: Tensor) -> _Blocks:
    codes = _nibbles(raw[..., 8:]) + _fifth_bits(raw[..., 4:8])
    return codes, _halves(raw), -_halves(raw[..., 2:])


def _q4_k(raw: Tensor) -> _Blocks:
    scales, minima = _six_bit_scales(raw)
    return _paired_nibbles(raw[..., 16:]).flatten(-2), scales, minima


def _q5_k(raw: Tensor) -> _Blocks:
    scales, minima = _six_bit_scales(raw)
    groups = torch.arange(8, dtype=torch.uint8)[:, None]
    fifth = (raw[..., None, 16:48] >> groups & 1).to(torch.int16) << 4  # [N, B, 8, 32]
    return (_paired_nibbles(raw[..., 48:]) + fifth).flatten(-2), scales, minima


def _q6_k(raw: Tensor) -> _Blocks:
    blocks = raw.shape[:2]
    low = raw[..., :128].reshape(*blocks, 2, 64)  # of each half of the block
    high = raw[..., 128:192].reshape(*blocks, 2, 1, 32)
    shifts = torch.arange(0, 8, 2, dtype=torch.uint8)[:, None]
    upper = (high >> shifts & 3).flatten(-2).to(torch.int16) << 4  # [N, B, 2, 128]
    codes = _nibbles(low) + upper - 32
    scales = raw[..., 192:208].view(torch.int8).float() * _halves(raw[..., 208:])
    return codes.flatten(-2), scales, None


def _paired_nibbles(raw: Tensor) -> Tensor:
    """Halves of four runs of 32 bytes, lower before upper, int16 `[N, B, 8, 32]`."""
    return _nibbles(raw.reshape(*raw.shape[:2], 4, 32)).reshape(*raw.shape[:2], 8, 32)


def _six_bit_scales(raw: Tensor) -> tuple[Tensor, Tensor]:
    """Scales and minima of eight groups, in twelve bytes behind their two factors."""
    first, second, rest = torch.split(raw[..., 4:16], 4, dim=-1)
    scales = torch.cat((first & 63, rest & 15 | first >> 6 << 4), dim=-1)
    minima = torch.cat((second & 63, rest >> 4 | second >> 6 << 4), dim=-1)
    return scales.float() * _halves(raw), minima.float() * _halves(raw[..., 2:])


PACKED_FORMS = {
    "Q8_0": PackedForm(8, 32, has_zeros=False),
    "Q4_0": PackedForm(4, 32, has_zeros=False),
    "Q4_1": PackedForm(4, 32, has_zeros=True),
    "Q5_0": PackedForm(8, 32, has_zeros=False),
    "Q5_1": PackedForm(8, 32, has_zeros=True),
    "Q4_K": PackedForm(4, 32, has_zeros=True),
    "Q5_K": PackedForm(8, 32, has_zeros=True),
    "Q6_K": PackedForm(8, 16, has_zeros=False),
}
"""Form of each quantised type that is read."""

_READERS: dict[str, tuple[int, Callable[[Tensor], _Blocks]]] = {
    "Q8_0": (34, _q8_0),
    "Q4_0": (18, _q4_0),
    "Q4_1": (20, _q4_1),
    "Q5_0": (22, _q5_0),
    "Q5_1": (24, _q5_1),
    "Q4_K": (144, _q4_k),
    "Q5_K": (176, _q5_k),
    "Q6_K": (210, _q6_k),
}
"""Bytes of a block, and its reader."""

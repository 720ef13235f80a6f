"""Rounding of a matrix to codes, with a scale for each group of inputs: native, and in torch.

With four bits several scales are tried for a group: those that put its largest value so many steps
from zero. The best is the one whose codes leave the smallest squared error once the scale is fitted
to them. The largest value, without its sign, takes the side with eight steps, so that a scale may
be negative.

Letters of the shapes: N outputs, W inputs, G groups of inputs in a row, S inputs of a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import addressof
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

from agentrt_kernels.contract import KernelsUnavailable
from agentrt_kernels.cpu import library as c
from agentrt_kernels.cpu.linear import KINDS
from agentrt_kernels.cpu.nibbles import pack_nibbles

_BLOCK_VALUES = 1 << 17
_LEAST_SQUARES = 1e-30
_LEAST: dict[int, int] = {8: -127, 4: -8}
_MOST: dict[int, int] = {8: 127, 4: 7}


@dataclass(frozen=True, slots=True)
class GroupRounding:
    """How a matrix is rounded.

    Attributes:
        bits: 8, symmetric to 127; or 4, for an even W.
        group: Inputs that share a scale; the last group of a row may be shorter.
        ends: Steps from zero at which a group's largest value may lie with four bits.
        importance: fp32 `[W]`, weight of each input's squared error in the search with four bits;
            None weighs all alike.
        codes: Whether the codes are wanted.
    """

    bits: int
    group: int
    ends: Sequence[float] = (8.0,)
    importance: Tensor | None = None
    codes: bool = True


def round_groups(weight: Tensor, how: GroupRounding) -> tuple[Tensor, Tensor]:
    """Round a matrix to the nearest steps, natively if there is a compiler.

    Args:
        weight: `[N, W]` on a CPU.
        how: Form of the codes, and what is searched.

    Returns:
        Codes, int8 `[N, W]` or uint8 `[N, W / 2]`, the input of even index in the lower half, or
        empty ones; and scales, fp32 `[N, G]`.
    """
    library = _library()
    if library is None:
        return round_groups_reference(weight, how)
    return round_groups_native(library, weight, how)


def round_groups_native(
    library: c.Native, weight: Tensor, how: GroupRounding
) -> tuple[Tensor, Tensor]:
    """The same by a library; see `round_groups`."""
    if weight.dtype not in KINDS:
        weight = weight.float()
    weight = weight.contiguous()
    rows, inputs = weight.shape
    values, scales = _results(rows, inputs, how)
    ends = torch.tensor(how.ends, dtype=torch.float32)
    importance = None if how.importance is None else how.importance.float().contiguous()
    call = c.RoundCall(
        weight=weight.data_ptr(),
        importance=None if importance is None else importance.data_ptr(),
        ends=ends.data_ptr(),
        codes=values.data_ptr() if how.codes else None,
        scales=scales.data_ptr(),
        weight_stride=weight.stride(0),
        code_stride=values.stride(0),
        rows=rows,
        inputs=inputs,
        group=how.group,
        end_count=len(how.ends),
        bits=how.bits,
        kind=KINDS[weight.dtype],
    )
    library.round(addressof(call))
    return values, scales


def round_groups_reference(weight: Tensor, how: GroupRounding) -> tuple[Tensor, Tensor]:
    """The same in torch alone; see `round_groups`.

    Sums are taken in another order, so that of two scales that are nearly as good the other may be
    chosen.
    """
    rows, inputs = weight.shape
    groups = -(-inputs // how.group)
    missing = groups * how.group - inputs
    values, scales = _results(rows, inputs, how)
    weighed = None
    if how.importance is not None:
        weighed = functional.pad(how.importance.float(), (0, missing)).view(groups, how.group)
    block = max(1, _BLOCK_VALUES // inputs)  # what is computed in between stays in the cache
    with one_thread():
        for at in range(0, rows, block):
            part = functional.pad(weight[at : at + block].float(), (0, missing))
            part = part.view(-1, groups, how.group)
            if how.bits == 8:
                found, scale = _eight_bits(part)
            else:
                found, scale = _four_bits(part, tuple(how.ends), weighed)
            scales[at : at + block] = scale[..., 0]
            if how.codes:
                flat = found.flatten(1)[:, :inputs]
                if how.bits == 4:
                    flat = pack_nibbles((flat + 8).to(torch.uint8))
                values[at : at + block] = flat.to(values.dtype)
    return values, scales


def nearest_codes(values: Tensor, scales: Tensor, bits: int) -> Tensor:
    """The nearest codes of `values`, fp32 like them; zeros where the scale is zero.

    Args:
        values: fp32, of any shape.
        scales: fp32, broadcast to the shape of the values.
        bits: Bits of a code.
    """
    turn = torch.where(scales == 0, 0.0, 1 / scales)
    return (values * turn).round_().clamp_(_LEAST[bits], _MOST[bits])


@cache
def _library() -> c.Native | None:
    """The native code, or None; a compiler that fails is not asked for each matrix again."""
    try:
        return c.native()
    except KernelsUnavailable:
        return None


def _results(rows: int, inputs: int, how: GroupRounding) -> tuple[Tensor, Tensor]:
    size = (rows, inputs if how.bits == 8 else inputs // 2) if how.codes else (0, 0)
    values = torch.empty(size, dtype=torch.int8 if how.bits == 8 else torch.uint8)
    return values, torch.empty((rows, -(-inputs // how.group)))


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute without torch's threads: on a busy machine they wait for each other at every step."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _eight_bits(groups: Tensor) -> tuple[Tensor, Tensor]:
    """Codes of -127 to 127 and scales `[N, G, 1]` of `[N, G, S]`."""
    scale = groups.abs().amax(-1, keepdim=True) / 127
    return nearest_codes(groups, scale, 8), scale


def _four_bits(
    groups: Tensor, ends: tuple[float, ...], importance: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Codes of -8 to 7 and scales `[N, G, 1]` of `[N, G, S]`."""
    place = groups.abs().argmax(-1, keepdim=True)
    largest = groups.gather(-1, place)
    used, fitted = largest / -ends[0], torch.zeros_like(largest)
    most = torch.full_like(largest, -1.0)
    for end in ends:
        scale = largest / -end
        codes = nearest_codes(groups, scale, 4)
        weighed = codes if importance is None else codes * importance
        squares = (weighed * codes).sum(-1, keepdim=True).clamp(min=_LEAST_SQUARES)
        along = (weighed * groups).sum(-1, keepdim=True)
        gained = along.square() / squares  # what the fitted scale takes off the error
        better = gained > most
        used, fitted = (
            torch.where(better, scale, used),
            torch.where(better, along / squares, fitted),
        )
        most = torch.where(better, gained, most)
    return nearest_codes(groups, used, 4), fitted

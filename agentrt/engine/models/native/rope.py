"""Angles of rotary positions.

Kernels turn the two halves of a head against each other. Where only the first values of a head
turn, the rest get an angle of zero, and the rows of the projections are put in an order in which
the values that turn together are half a head apart: queries and keys in the same order, so that
their products stay what they were.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from agentrt.engine.models.native.shape import Rope


def frequencies(rope: Rope, head_dim: int) -> Tensor:
    """`[head_dim / 2]` angle of one position, fp32; Llama 3.1's stretch from its formula."""
    steps = torch.arange(0, rope.width, 2, dtype=torch.int64).float() / rope.width
    turning = 1.0 / (rope.theta**steps) / rope.stretch
    if rope.llama3 is not None:
        turning = _stretched(turning, *rope.llama3)
    still = torch.zeros(head_dim // 2 - rope.width // 2)
    return torch.cat((turning, still))


def angles(rope: Rope, head_dim: int, positions: int, device: torch.device) -> Tensor:
    """`[positions, head_dim]` fp32: cosines of each, then sines."""
    turns = torch.arange(positions, device=device).float()[:, None]
    turns = turns * frequencies(rope, head_dim).to(device)  # [positions, head_dim / 2]
    return torch.cat((turns.cos(), turns.sin()), -1)


def head_order(rope: Rope, head_dim: int) -> list[int]:
    """Where each value of a head comes from."""
    half, turning = head_dim // 2, rope.width // 2
    first = [*range(turning), *range(rope.width, rope.width + half - turning)]
    second = [*range(turning, rope.width), *range(rope.width + half - turning, head_dim)]
    return first + second


def _stretched(plain: Tensor, factor: float, low: float, high: float, length: float) -> Tensor:
    wavelength = 2 * math.pi / plain
    smooth = (length / wavelength - low) / (high - low)
    between = (1 - smooth) * plain / factor + smooth * plain
    slow = torch.where(wavelength > length / low, plain / factor, plain)
    middle = (wavelength >= length / high) & (wavelength <= length / low)
    return torch.where(middle, between, slow)

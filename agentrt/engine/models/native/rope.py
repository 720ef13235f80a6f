"""Angles of rotary positions.

Kernels rotate the two halves of a head against each other. If only the first values of a head are
rotated, the rest get an angle of zero, and the rows of the projections are reordered so that values
that rotate together are half a head apart: queries and keys in the same order, so that their
products stay the same.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from agentrt.engine.models.native.shape import Rope


def frequencies(rope: Rope, head_dim: int) -> Tensor:
    """`[head_dim / 2]` angle of one position, fp32; scaled by Llama 3.1's formula if set."""
    steps = torch.arange(0, rope.width, 2, dtype=torch.int64).float() / rope.width
    rotated = 1.0 / (rope.theta**steps) / rope.factor
    if rope.llama3 is not None:
        rotated = _llama3_scaled(rotated, *rope.llama3)
    unrotated = torch.zeros(head_dim // 2 - rope.width // 2)
    return torch.cat((rotated, unrotated))


def angles(rope: Rope, head_dim: int, positions: int, device: torch.device) -> Tensor:
    """`[positions, head_dim]` fp32: cosines of each angle, then sines."""
    angle = torch.arange(positions, device=device).float()[:, None]
    angle = angle * frequencies(rope, head_dim).to(device)  # [positions, head_dim / 2]
    return torch.cat((angle.cos(), angle.sin()), -1)


def head_order(rope: Rope, head_dim: int) -> list[int]:
    """Index from which each value of a head is taken."""
    half, rotated = head_dim // 2, rope.width // 2
    first = [*range(rotated), *range(rope.width, rope.width + half - rotated)]
    second = [*range(rotated, rope.width), *range(rope.width + half - rotated, head_dim)]
    return first + second


def _llama3_scaled(plain: Tensor, factor: float, low: float, high: float, length: float) -> Tensor:
    wavelength = 2 * math.pi / plain
    smooth = (length / wavelength - low) / (high - low)
    between = (1 - smooth) * plain / factor + smooth * plain
    slow = torch.where(wavelength > length / low, plain / factor, plain)
    middle = (wavelength >= length / high) & (wavelength <= length / low)
    return torch.where(middle, between, slow)

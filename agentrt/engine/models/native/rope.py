"""Angles of rotary positions.

Kernels rotate the two halves of a head against each other. If only the first values of a head are
rotated, the rest get an angle of zero. The rows of the projections are reordered so that values
that rotate together are half a head apart, also where they are neighbours in a checkpoint: queries
and keys in the same order, so that their products stay the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from agentrt.engine.models.native.shape import Rope, Yarn


def frequencies(rope: Rope, head_dim: int) -> Tensor:
    """`[head_dim / 2]` angle of one position, fp32, scaled as the shape says."""
    steps = torch.arange(0, rope.width, 2, dtype=torch.int64).float() / rope.width
    rotated = 1.0 / (rope.theta**steps) / rope.factor
    if rope.factors:
        rotated = 1.0 / (torch.tensor(rope.factors) * rope.theta**steps)
    if rope.llama3 is not None:
        rotated = _llama3_scaled(rotated, *rope.llama3)
    if rope.yarn is not None:
        rotated = _yarn_scaled(rope, rope.yarn)
    unrotated = torch.zeros(head_dim // 2 - rope.width // 2)
    return torch.cat((rotated, unrotated))


def angle_tables(
    ropes: Sequence[Rope | None], head_dim: int, positions: int, device: torch.device
) -> list[Tensor]:
    """Angles of each layer; layers with the same rope share a table."""
    tables = {rope: angles(rope, head_dim, positions, device) for rope in dict.fromkeys(ropes)}
    return [tables[rope] for rope in ropes]


def angles(rope: Rope | None, head_dim: int, positions: int, device: torch.device) -> Tensor:
    """`[positions, head_dim]` fp32: cosines of each angle, then sines; all zero without a rope.

    A rope with a threshold has two tables, one behind the other: as many positions as sequences
    within the threshold have, and then those of longer sequences.
    """
    if rope is not None and rope.threshold:
        short = replace(rope, threshold=0)
        long = replace(short, factors=rope.long_factors)
        tables = ((short, rope.threshold), (long, positions))
        return torch.cat([angles(one, head_dim, count, device) for one, count in tables])
    if rope is None:
        still = torch.zeros((positions, head_dim), device=device)
        still[:, : head_dim // 2] = 1.0
        return still
    angle = torch.arange(positions, device=device).float()[:, None]
    angle = angle * frequencies(rope, head_dim).to(device)  # [positions, head_dim / 2]
    values = torch.cat((angle.cos(), angle.sin()), -1)
    if rope.amplitude != 1.0:
        rotated = rope.width // 2
        for start in (0, head_dim // 2):  # what is not rotated keeps its length
            values[:, start : start + rotated] *= rope.amplitude
    return values


def head_order(rope: Rope | None, head_dim: int) -> list[int]:
    """Index from which each value of a head is taken."""
    if rope is None:
        return list(range(head_dim))
    half, rotated = head_dim // 2, rope.width // 2
    order = list(range(rope.width))
    if rope.interleaved:
        order = order[::2] + order[1::2]
    first = [*order[:rotated], *range(rope.width, rope.width + half - rotated)]
    second = [*order[rotated:], *range(rope.width + half - rotated, head_dim)]
    return first + second


def _llama3_scaled(plain: Tensor, factor: float, low: float, high: float, length: float) -> Tensor:
    wavelength = 2 * math.pi / plain
    smooth = (length / wavelength - low) / (high - low)
    between = (1 - smooth) * plain / factor + smooth * plain
    slow = torch.where(wavelength > length / low, plain / factor, plain)
    middle = (wavelength >= length / high) & (wavelength <= length / low)
    return torch.where(middle, between, slow)


def _yarn_scaled(rope: Rope, yarn: Yarn) -> Tensor:
    wavelengths = rope.theta ** (torch.arange(0, rope.width, 2).float() / rope.width)

    def step_of(rotations: float) -> float:
        """Index of the wavelength that rotates so often within the original length."""
        ratio = math.log(yarn.original / (rotations * 2 * math.pi))
        return rope.width * ratio / (2 * math.log(rope.theta))

    low, high = step_of(yarn.fast), step_of(yarn.slow)
    if yarn.truncates:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, rope.width - 1)
    high += 0.001 * (low == high)
    ramp = (torch.arange(rope.width // 2, dtype=torch.float32) - low) / (high - low)
    kept = 1 - ramp.clamp(0, 1)
    return 1.0 / (yarn.factor * wavelengths) * (1 - kept) + 1.0 / wavelengths * kept

"""Programs of several shapes in given shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from agentrt.base.errors import UsageError
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.shapes import drawn_with
from agentrt.lab.workloads.sizes import SIZES, Sizes
from agentrt.lab.workloads.trace import ProgramTrace

OPEN_MIX: Mapping[str, float] = {
    "chat": 0.40,
    "react": 0.25,
    "map-reduce": 0.12,
    "tree-of-thought": 0.05,
    "finance": 0.10,
    "coding-agent": 0.08,
}
"""The mix of a service for all kinds of programs: mostly small ones, and some very long ones."""


def mix(
    count: int,
    random: Random,
    scale: Scale,
    shares: Mapping[str, float] = OPEN_MIX,
    *,
    sizes: Sizes = SIZES,
    tenants: int = 1,
) -> tuple[ProgramTrace, ...]:
    """Draw programs, each of a shape drawn by its share.

    Args:
        count: Number of programs.
        random: Source of all draws.
        scale: Scale of lengths, times and counts.
        shares: Share of each shape; they need not add up to 1.
        sizes: Distributions to draw from.
        tenants: Tenants among whom the programs are dealt out; a single one has no name.

    Raises:
        UsageError: A shape is not known, or there is nothing to draw.
    """
    if count < 1 or not shares or not sum(shares.values()) > 0:
        raise UsageError(
            f"a mix of {count} programs over {dict(shares)} is empty",
            hint="Give at least one program, and at least one shape a share above 0",
        )
    names = list(shares)
    drawn: list[ProgramTrace] = []
    for _ in range(count):
        (shape,) = random.choices(names, list(shares.values()))
        program = drawn_with(Random(random.getrandbits(64)), shape, scale, sizes)
        if tenants > 1:
            program = replace(program, tenant=f"tenant{random.randrange(tenants)}")
        drawn.append(program)
    return tuple(drawn)

"""The twelve shapes of programs, by name."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeAlias

from agentrt.base.errors import UsageError
from agentrt.lab.workloads.chains import chat, coding_agent, extraction, finance, react
from agentrt.lab.workloads.forks import (
    classification,
    debate,
    judge,
    map_reduce,
    self_consistency,
    skeleton,
)
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.sizes import SIZES, Sizes
from agentrt.lab.workloads.sketch import Sketch
from agentrt.lab.workloads.trace import ProgramTrace
from agentrt.lab.workloads.tree import tree_of_thought

ProgramShape: TypeAlias = Callable[[Sketch], ProgramTrace]
"""Draws a program of one kind."""

SHAPES: dict[str, ProgramShape] = {
    "react": react,
    "self-consistency": self_consistency,
    "tree-of-thought": tree_of_thought,
    "skeleton": skeleton,
    "map-reduce": map_reduce,
    "judge": judge,
    "chat": chat,
    "extraction": extraction,
    "finance": finance,
    "debate": debate,
    "coding-agent": coding_agent,
    "classification": classification,
}


def shape_named(name: str) -> ProgramShape:
    """Look up a shape.

    Raises:
        UsageError: There is no shape of that name.
    """
    if name not in SHAPES:
        raise UsageError(
            f"there is no shape of programs {name!r}", hint=f"Use one of {', '.join(SHAPES)}"
        )
    return SHAPES[name]


def drawn_with(random: Random, name: str, scale: Scale, sizes: Sizes = SIZES) -> ProgramTrace:
    """Draw a program of a shape from a source of random numbers.

    Raises:
        UsageError: There is no such shape.
    """
    return shape_named(name)(Sketch(name, random, scale, sizes))


def drawn(
    name: str, seed: object, scale: Scale, sizes: Sizes = SIZES, *, play: int = 0
) -> ProgramTrace:
    """Draw a program of a shape; it depends only on the arguments.

    Args:
        name: Name of the shape.
        seed: Any value; its text distinguishes draws.
        scale: Scale of lengths, times and counts.
        sizes: Distributions to draw from.
        play: Number of the play; plays differ in their text, not in their lengths.

    Raises:
        UsageError: There is no such shape.
    """
    sketch = Sketch(name, Random(f"{name}/{seed}"), scale, sizes, play=play)
    return shape_named(name)(sketch)

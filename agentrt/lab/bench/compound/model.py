"""The model of a bench, and how programs are made small enough for it."""

from __future__ import annotations

from pathlib import Path

from agentrt import embedded
from agentrt.analysis.model_shape import ModelShape, shape_in
from agentrt.base.record import record
from agentrt.lab.bench.compound.plan import ProgramDraw
from agentrt.lab.checkpoints.checkpoint import checkpoint
from agentrt.lab.checkpoints.shapes import is_large, shape_named
from agentrt.lab.flags import factors
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.sizes import SIZES, Sizes
from agentrt.lab.workloads.text import KeySpeller, words_of

EMBEDDED = "embedded"
LIFE, SMALL = "life", "small"
LIFE_SIZE = Scale(think=0.002)
"""Lengths, fan-outs and tools as in the sources; pauses, which no latency counts, are cut."""


@record
class BenchModel:
    """A model and the programs for it.

    Attributes:
        path: Checkpoint directory.
        shape: Shape of the model.
        drawing: How programs are drawn and spelled.
    """

    path: Path
    shape: ModelShape
    drawing: ProgramDraw


def bench_model(
    name: str,
    *,
    scale: str = SMALL,
    sizes: Sizes = SIZES,
    seed: int = 0,
) -> BenchModel:
    """The embedded model, or random weights of a named shape.

    Args:
        name: `embedded`, or the name of a shape.
        scale: Scale in words, as `scale_of` reads it.
        sizes: Distributions to draw from.
        seed: Seed of all draws.

    Raises:
        UsageError: There is no such shape or scale.
    """
    shape = model_shape(name)
    scaled = scale_of(scale, shape)  # read before weights are written
    path = Path(embedded.path()) if name == EMBEDDED else checkpoint(shape)
    spell = KeySpeller(words_of(path / "tokenizer.json"))
    drawing = ProgramDraw(scaled, sizes, seed, spell, shape.window_tokens)
    return BenchModel(path, shape, drawing)


def model_shape(name: str) -> ModelShape:
    """Shape of the embedded model, or a named one.

    Raises:
        UsageError: There is no such shape.
    """
    return shape_in(Path(embedded.path())) if name == EMBEDDED else shape_named(name)


def scale_of(text: str, shape: ModelShape) -> Scale:
    """A scale from its words: `life` or `small`, then factors that replace some of its own.

    Args:
        text: For example `small,output=0.15`; life size if no name begins it.
        shape: Shape of the model, on which `small` depends.

    Raises:
        UsageError: A factor is not known, no number, or out of range.
    """
    name, _, rest = text.partition(",")
    if name not in (LIFE, SMALL):
        name, rest = LIFE, text
    base = small_scale(shape) if name == SMALL else LIFE_SIZE
    return base.with_factors(factors(rest, "--scale"))


def small_scale(shape: ModelShape) -> Scale:
    """A scale at which all twelve shapes take minutes on two cores, to try things.

    Times are scaled with outputs, so that tools keep their share of a program.
    """
    if is_large(shape):
        return Scale(0.12, 0.1, 0.1, 0.3, 0.002)
    if shape.parameters > 5_000_000:
        return Scale(0.25, 0.25, 0.05, 0.5, 0.002)
    return Scale(0.125, 0.25, 0.01, 0.5, 0.0005)

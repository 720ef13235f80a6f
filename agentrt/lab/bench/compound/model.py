"""The model of a bench, and how programs are made small enough for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agentrt import embedded
from agentrt.analysis.model_shape import ModelShape, shape_in
from agentrt.base.record import record
from agentrt.lab.bench.compound.plan import ProgramDraw
from agentrt.lab.checkpoints.checkpoint import checkpoint
from agentrt.lab.checkpoints.shapes import is_large, shape_named
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.sizes import SIZES, Sizes
from agentrt.lab.workloads.text import KeySpeller, words_of

EMBEDDED = "embedded"


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
    factors: Mapping[str, float] | None = None,
    sizes: Sizes = SIZES,
    seed: int = 0,
) -> BenchModel:
    """The embedded model, or random weights of a named shape.

    Args:
        name: `embedded`, or the name of a shape.
        factors: Factors that replace those of the default scale, by name.
        sizes: Distributions to draw from.
        seed: Seed of all draws.

    Raises:
        UsageError: There is no such shape, or no such factor.
    """
    if name == EMBEDDED:
        path = Path(embedded.path())
        shape = shape_in(path)
    else:
        shape = shape_named(name)
        path = checkpoint(shape)
    scale = default_scale(shape).with_factors(factors or {})
    spell = KeySpeller(words_of(path / "tokenizer.json"))
    return BenchModel(path, shape, ProgramDraw(scale, sizes, seed, spell, shape.window_tokens))


def default_scale(shape: ModelShape) -> Scale:
    """A scale at which all twelve shapes take minutes on two cores.

    Times are scaled with outputs, so that tools keep their share of a program.
    """
    if is_large(shape):
        return Scale(0.12, 0.1, 0.1, 0.3, 0.002)
    if shape.parameters > 5_000_000:
        return Scale(0.25, 0.25, 0.05, 0.5, 0.002)
    return Scale(0.125, 0.25, 0.01, 0.5, 0.0005)

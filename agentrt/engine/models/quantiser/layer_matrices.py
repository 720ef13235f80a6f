"""The matrices of a dense decoder's layers: names, inputs that they share, and those kept plain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from agentrt.base.errors import UsageError
from agentrt.engine.models.native.shape import DecoderShape


@dataclass(frozen=True, slots=True)
class LayerMatrices:
    """Module names of a layer's matrices, by the inputs that they share.

    Attributes:
        qkv: Query, key and value projections, or one that is all three.
        out: Output projection of attention.
        gate_up: Gate and up projections, or one that is both.
        down: Down projection.
    """

    qkv: tuple[str, ...]
    out: tuple[str, ...]
    gate_up: tuple[str, ...]
    down: tuple[str, ...]

    @property
    def by_inputs(self) -> tuple[tuple[str, ...], ...]:
        """All of them, those with equal inputs together."""
        return (self.qkv, self.out, self.gate_up, self.down)


def matrices_of(shape: DecoderShape, layer: int) -> LayerMatrices:
    """The matrices of a layer with a gated MLP."""
    at, names = f"model.layers.{layer}.", shape.names
    return LayerMatrices(
        qkv=tuple(at + name for name in names.qkv),
        out=(f"{at}self_attn.o_proj",),
        gate_up=tuple(at + name for name in names.gate_up),
        down=(at + names.down,),
    )


def chosen_modules(shape: DecoderShape, patterns: Sequence[str], flag: str) -> frozenset[str]:
    """Modules whose names fit one of some patterns.

    Matrices with equal inputs that engines read as one (queries, keys and values; gate and up) are
    chosen together.

    Args:
        shape: Shape of the decoder.
        patterns: Names with `*`, `?` and `[...]`; `model.` in front may be left out.
        flag: Flag that gave the patterns, for errors.

    Raises:
        UsageError: A pattern fits no module.
    """
    groups = [group for one in range(shape.layers) for group in matrices_of(shape, one).by_inputs]
    chosen: set[str] = set()
    for pattern in patterns:
        found = [group for group in groups if any(_fits(name, pattern) for name in group)]
        if not found:
            raise UsageError(
                f"{flag} {pattern} fits no matrix",
                hint=f"Names are as {groups[0][0].removeprefix('model.')}; * stands for any text",
            )
        chosen |= {name for group in found for name in group}
    return frozenset(chosen)


def _fits(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name.removeprefix("model."), pattern)

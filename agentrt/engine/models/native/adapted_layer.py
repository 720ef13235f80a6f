"""Linears with adapters where a network calls them one by one.

Letters of the shapes: T rows, W inputs, N outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from agentrt.engine.models.native.experts import Gated
from agentrt.engine.models.native.layer import Layer
from agentrt.engine.ops.linear import Linear
from agentrt_kernels.lora import LayerLowRank, LowRank, add_low_rank


class RowAdapters:
    """The adapters of the rows that are being computed.

    Attributes:
        of_rows: `[T]` int32, the adapter of each row, 0 for none; None if no row has one.
    """

    def __init__(self) -> None:
        self.of_rows: Tensor | None = None

    def select(self, rows: Tensor) -> None:
        """Go on with some of the rows, `[n]` int64."""
        if self.of_rows is not None:
            self.of_rows = self.of_rows[rows]

    def adapted(self, layer: Layer[Linear], adapters: Sequence[LayerLowRank]) -> Layer[Linear]:
        """A layer with the parts that adapters have in it."""
        inner = layer.inner
        if isinstance(inner, Gated):
            inner = replace(
                inner,
                gate_up=self._linear(inner.gate_up, [one.gate_up for one in adapters]),
                down=self._linear(inner.down, [one.down for one in adapters]),
            )
        return replace(
            layer,
            qkv=self._linear(layer.qkv, [one.qkv for one in adapters]),
            out=self._linear(layer.out, [one.out for one in adapters]),
            inner=inner,
        )

    def _linear(self, base: Linear, matrices: Sequence[LowRank | None]) -> Linear:
        if all(one is None for one in matrices):
            return base
        return AdaptedLinear(base, matrices, self)


class AdaptedLinear:
    """A linear whose rows may have adapters.

    Args:
        base: The linear of the model.
        matrices: Parts by adapter, from number 1 on.
        rows: Says which row has which.
    """

    def __init__(self, base: Linear, matrices: Sequence[LowRank | None], rows: RowAdapters) -> None:
        self._base = base
        self._matrices = matrices
        self._rows = rows

    def apply(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """See `Linear`."""
        made = self._base.apply(x, out)
        if self._rows.of_rows is not None:
            add_low_rank(x, made, self._matrices, self._rows.of_rows)
        return made

"""Weights of experts that wait in a file until they are packed: memory may not hold all of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from torch import Tensor

from agentrt.engine.models.native.shape import WeightNames
from agentrt.engine.models.native.weights import is_expert_weight
from agentrt.engine.models.packed_weight import PackedWeight
from agentrt.engine.ops.spill_file import SpillFile

_TENSORS = ("values", "scales", "zeros", "order", "table")


class WeightSpill:
    """Moves the weights of experts to a file.

    Args:
        names: Names of the decoder's weights.
        mapped: Names of weights that are mapped from the checkpoint, and so need no other file.
    """

    def __init__(self, names: WeightNames, mapped: Collection[str]) -> None:
        self._names, self._mapped = names, mapped
        self._file = SpillFile()

    def wants(self, name: str) -> bool:
        """Whether a weight is one of routed experts.

        Args:
            name: Name of the weight in the decoder.
        """
        return is_expert_weight(self._names, name)

    def take(self, name: str, weight: Tensor | PackedWeight) -> Tensor | PackedWeight:
        """A weight of experts, mapped.

        Raises:
            EngineUnavailable: The file cannot be written.
        """
        if isinstance(weight, Tensor):
            return weight if name in self._mapped else self._file.add_tensor(weight)
        held = {part: getattr(weight, part) for part in _TENSORS}
        moved: dict[str, Any] = {
            part: self._file.add_tensor(one) for part, one in held.items() if one is not None
        }
        return replace(weight, **moved)

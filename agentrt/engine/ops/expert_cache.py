"""The expert cache: bounded memory that holds the experts in use, and lets others go.

The decision is that of `ExpertResidency`; the memory of a layer does what it says.

Letters of the shapes: E experts of a layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agentrt.engine.ops.expert_residency import ExpertResidency


class ExpertMemory(Protocol):
    """Both memories of a layer's experts: the bounded one, and the one that has them all."""

    def hold(self, expert: int) -> None:
        """Copy an expert into the bounded memory."""

    def release(self, expert: int) -> None:
        """Give its place in the bounded memory back."""


@dataclass(frozen=True, slots=True)
class ExpertCacheCounts:
    """Hits and misses of the expert cache by layer.

    Attributes:
        hits: Experts that were resident, once a forward and layer that needs them.
        misses: Experts that were read or copied from the other memory.
    """

    hits: tuple[int, ...]
    misses: tuple[int, ...]


class ExpertCache:
    """Bounded memory for the experts of a model.

    Args:
        bound_bytes: Most bytes of resident experts.

    Attributes:
        residency: Which experts are resident.
    """

    def __init__(self, bound_bytes: int) -> None:
        self.residency = ExpertResidency(bound_bytes)
        self._layers: list[ExpertMemory] = []
        self._hits: list[int] = []
        self._misses: list[int] = []

    def add_layer(self, memory: ExpertMemory, sizes: Sequence[int]) -> int:
        """Number of a new layer, whose experts have these bytes `[E]`; none is resident."""
        self._layers.append(memory)
        self._hits.append(0)
        self._misses.append(0)
        return self.residency.add_layer(sizes)

    def need(self, layer: int, experts: Sequence[int]) -> list[int]:
        """Make experts of a layer resident where that pays, and return those that are not.

        Args:
            layer: Number of the layer.
            experts: Numbers of the experts of the next products, each once.
        """
        self.residency.note(layer, experts)
        change = self.residency.decide(layer, experts)
        self._hits[layer] += change.hits
        self._misses[layer] += len(experts) - change.hits
        if change.admitted:
            for other, expert in change.evicted:
                self._layers[other].release(expert)
            for _, expert in change.admitted:
                self._layers[layer].hold(expert)
            self.residency.apply(change)
        return [expert for _, expert in change.passing]

    @property
    def hits(self) -> int:
        """Hits so far."""
        return sum(self._hits)

    @property
    def misses(self) -> int:
        """Misses so far."""
        return sum(self._misses)

    @property
    def counts(self) -> ExpertCacheCounts:
        """Hits and misses so far."""
        return ExpertCacheCounts(tuple(self._hits), tuple(self._misses))

"""Experts of a CPU beyond a bound of memory: all in a mapped file, some in memory as well.

An expert that is not resident is multiplied where it lies in the mapping: nothing is copied for a
use that may be its last, and all experts of a layer are one native call, wherever they are.

Letters of the shapes: T tokens, A experts of a token, E experts, W hidden width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from torch import Tensor

from agentrt.engine.ops.expert_cache import ExpertCache
from agentrt.engine.ops.experts import ExpertRows, Routes
from agentrt.engine.ops.spill_file import SpilledBytes
from agentrt_kernels.contract import Activation
from agentrt_kernels.cpu.experts import ExpertMatrices, PackedExpert
from agentrt_kernels.cpu.kernel_set import CpuKernels
from agentrt_kernels.cpu.linear import fresh_memory


class FreedMemory:
    """Memory of experts that have gone, for those that come; it never adds to the bound.

    What is freed has the bytes of what follows, unless layers are quantised differently.
    """

    def __init__(self) -> None:
        self._freed: list[Tensor] = []

    def take(self, size: int) -> Tensor:
        """uint8 `[size]`, which may hold what it held before."""
        if self._freed and self._freed[-1].numel() != size:
            self._freed.clear()
        return self._freed.pop() if self._freed else fresh_memory(size)

    def give(self, memory: Tensor) -> None:
        """Give memory back."""
        self._freed.append(memory)


class MappedExperts:
    """The experts of a layer.

    Args:
        kernels: The native kernel set.
        experts: Each drawn once: matrices, or packed in a mapping of their own.
        activation: How gates open.
        cache: Decides which are resident, for all layers.
        spill: Writes those that are not packed to a file.
        freed: Memory for those that are resident, for all layers.

    Attributes:
        expert_bytes: Bytes of an expert.
        quantised_bytes: Bytes of all experts if they are quantised, else 0.

    Raises:
        EngineUnavailable: The file cannot be written.
    """

    needs_rows = False

    def __init__(
        self,
        kernels: CpuKernels,
        experts: Iterable[ExpertMatrices | PackedExpert],
        activation: Activation,
        cache: ExpertCache,
        spill: Callable[[Tensor], SpilledBytes],
        freed: FreedMemory,
    ) -> None:
        self._spilled: list[SpilledBytes] = []
        self._experts = kernels.movable_experts(
            experts, activation, lambda block: self._spilled.append(spill(block))
        )
        size, count = self._experts.block_bytes, self._experts.count
        self.expert_bytes = size
        self.quantised_bytes = size * count if self._experts.is_quantised else 0
        for expert, spilled in enumerate(self._spilled):
            self._experts.place(expert, spilled.values.data_ptr())
        self._freed = freed
        self._held: dict[int, Tensor] = {}
        self._cache = cache
        self._layer = cache.add_layer(self, [size] * count)

    def apply(self, x: Tensor, routes: Routes, rows: ExpertRows | None, out: Tensor) -> None:
        """See `RoutedExperts`."""
        chosen = routes.chosen.numpy()
        needed = np.flatnonzero(np.bincount(chosen.ravel(), minlength=1)[: self._experts.count])
        passing = self._cache.need(self._layer, needed.tolist())
        if self._spilled:
            for expert in passing:
                self._spilled[expert].want()
        self._experts.apply(x, routes.chosen, routes.shares.float(), out)

    def hold(self, expert: int) -> None:
        """See `ExpertMemory`."""
        memory = self._freed.take(self._experts.block_bytes)
        if self._spilled:
            self._spilled[expert].read(memory)
        else:
            self._experts.copy(self._experts.packed[expert], memory)
        self._held[expert] = memory
        self._experts.place(expert, memory.data_ptr())

    def release(self, expert: int) -> None:
        """See `ExpertMemory`."""
        if self._spilled:
            self._experts.place(expert, self._spilled[expert].values.data_ptr())
        else:
            self._experts.place_packed(expert)
        self._freed.give(self._held.pop(expert))

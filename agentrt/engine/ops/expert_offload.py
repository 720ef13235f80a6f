"""Expert offloading: the experts of a model, of which a bounded part is in fast memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import NoReturn

import torch
from torch import Tensor

from agentrt.base.errors import EngineUnavailable, UsageError
from agentrt.engine.ops.device_experts import (
    DeviceExperts,
    ExpertSlots,
    Projections,
    SlotMemory,
    fits_slots,
    slot_memory,
)
from agentrt.engine.ops.expert_cache import ExpertCache, ExpertCacheCounts
from agentrt.engine.ops.expert_copies import copies_to, pinned
from agentrt.engine.ops.mapped_experts import FreedMemory, MappedExperts
from agentrt.engine.ops.spill_file import SpilledBytes, SpillFile
from agentrt_kernels.contract import Activation, Kernels
from agentrt_kernels.cpu.experts import ExpertMatrices, PackedExpert
from agentrt_kernels.cpu.kernel_set import CpuKernels

_PASSAGE_PART = 8
"""Part of the bound for experts that do not stay, where they have to be copied."""
_MOST_PASSING = 16
"""Most experts that it holds: more would not hide more of a copy."""


@dataclass(frozen=True, slots=True)
class SlotCounts:
    """Slots of a device by what they are for.

    Attributes:
        stay: Slots of each layer.
        passage: Slots of each part of the passage, which products and copies take in turns.
    """

    stay: tuple[int, ...]
    passage: tuple[int, ...]


def slot_counts(slots: int, layers: int) -> SlotCounts:
    """Distribution of the slots of a device, at least one.

    Example:
        >>> slot_counts(20, 3)
        SlotCounts(stay=(6, 6, 6), passage=(1, 1))
        >>> slot_counts(1, 3)
        SlotCounts(stay=(0, 0, 0), passage=(1,))
    """
    passing = min(max(1, slots // _PASSAGE_PART), _MOST_PASSING)
    passage = (passing // 2,) * 2 if passing > 1 else (1,)
    each, more = divmod(slots - sum(passage), layers)
    return SlotCounts(tuple(each + (layer < more) for layer in range(layers)), passage)


class ExpertOffload:
    """Bounded memory that the layers of a network share.

    Args:
        bound_bytes: Most bytes of experts in fast memory.
        layers: Layers with experts.
    """

    def __init__(self, bound_bytes: int, layers: int) -> None:
        self._bound_bytes, self._layers = bound_bytes, layers
        self._file: SpillFile | None = None
        self._freed = FreedMemory()
        self._caches: list[ExpertCache] = []
        self._passage: list[SlotMemory] = []

    @property
    def hits(self) -> int:
        """Hits so far, in all layers."""
        return sum(one.hits for one in self._caches)

    @property
    def misses(self) -> int:
        """Misses so far, in all layers."""
        return sum(one.misses for one in self._caches)

    @property
    def counts(self) -> ExpertCacheCounts:
        """Hits and misses so far, by layer."""
        counts = [one.counts for one in self._caches]
        return ExpertCacheCounts(
            tuple(chain.from_iterable(one.hits for one in counts)),
            tuple(chain.from_iterable(one.misses for one in counts)),
        )

    @property
    def resident_bytes(self) -> int:
        """Bytes of the experts that stay in fast memory now."""
        return sum(one.residency.resident_bytes for one in self._caches)

    def native(
        self,
        kernels: CpuKernels,
        experts: Iterable[ExpertMatrices | PackedExpert],
        activation: Activation,
    ) -> MappedExperts:
        """The experts of a layer, computed by the native call; packed ones lie in a mapping.

        Raises:
            EngineUnavailable: The file of all experts cannot be written.
            UsageError: The bound is smaller than an expert.
        """
        if not self._caches:
            self._caches.append(ExpertCache(self._bound_bytes))
        cache = self._caches[0]
        made = MappedExperts(kernels, experts, activation, cache, self._spill, self._freed)
        if made.expert_bytes > self._bound_bytes:
            self._refuse(made.expert_bytes)
        return made

    def on_device(
        self,
        kernels: Kernels,
        experts: Projections,
        activation: Activation,
        device: torch.device,
    ) -> DeviceExperts:
        """The experts of a layer, copied to the device before products.

        Raises:
            EngineUnavailable: They lie in other tensors than those of the layers before.
            UsageError: The bound is smaller than an expert.
        """
        gate_up, down = (
            one.over([self._kept(part, device) for part in one.parts]) for one in experts
        )
        host = gate_up, down
        size = sum(part[0].nbytes for one in host for part in one.parts)
        if size > self._bound_bytes:
            self._refuse(size)
        counts = slot_counts(self._bound_bytes // size, self._layers)
        if not self._passage:
            self._passage = [slot_memory(host, count, device) for count in counts.passage]
        passage = self._passage[0]
        if not all(map(fits_slots, host, passage)):
            raise EngineUnavailable(
                "slots of one form hold no experts of layers that are quantised differently",
                hint="Leave --expert-memory, or quantise the experts of all layers in one way",
            )
        stay = counts.stay[len(self._caches)]
        self._caches.append(ExpertCache(stay * size))
        return DeviceExperts(
            host,
            ExpertSlots(host, slot_memory(host, stay, device)),
            [ExpertSlots(host, memory) for memory in self._passage],
            self._caches[-1],
            copies_to(device),
            activation,
            kernels,
        )

    def _kept(self, part: Tensor, device: torch.device) -> Tensor:
        """Values of all experts in the memory that holds them."""
        return pinned(part) if device.type == "cuda" else self._opened().add_tensor(part)

    def _spill(self, values: Tensor) -> SpilledBytes:
        return self._opened().add(values)

    def _opened(self) -> SpillFile:
        """The file, which is made when something is to be written for the first time."""
        if self._file is None:
            self._file = SpillFile()
        return self._file

    def _refuse(self, size: int) -> NoReturn:
        raise UsageError(
            f"{self._bound_bytes:,} bytes for experts hold none: one takes {size:,}",
            hint=f"Give --expert-memory {size} or more, or leave it",
        )

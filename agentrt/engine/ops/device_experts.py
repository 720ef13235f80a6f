"""Experts beyond a bound of a device's memory: all in host memory, some on the device as well.

Each layer has slots for experts that stay. What else a forward needs passes through slots that all
layers share, half of them filled while products read the other half. A layer computes in waves: one
with the experts that stay, and one for each half that passes.

Letters of the shapes: T tokens, A experts of a token, E experts, W hidden width, I inner width, N
outputs, S slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from agentrt.engine.kv.transfer import to_device
from agentrt.engine.ops.expert_cache import ExpertCache
from agentrt.engine.ops.expert_copies import ExpertCopies
from agentrt.engine.ops.experts import ExpertRows, Routes
from agentrt_kernels.contract import Activation, Kernels, MovableLinear

Numbers = npt.NDArray[np.int64]
Projections = tuple[MovableLinear, MovableLinear]
"""Gate and up projections `[2 * I, W]` of experts, and their down projections `[W, I]`."""
SlotMemory = tuple[Sequence[Tensor], Sequence[Tensor]]
"""Tensors `[S, ...]` of both projections: weights, or codes and scales, and biases."""


def slot_memory(like: Projections, count: int, device: torch.device) -> SlotMemory:
    """Memory of S slots.

    Args:
        like: Experts of their form.
        count: S.
        device: The device.
    """
    gate_up, down = (
        [
            torch.empty((count, *part.shape[1:]), dtype=part.dtype, device=device)
            for part in one.parts
        ]
        for one in like
    )
    return gate_up, down


def fits_slots(experts: MovableLinear, memory: Sequence[Tensor]) -> bool:
    """Whether slots hold experts of such tensors."""
    wanted, there = (
        [(one.dtype, one.shape[1:]) for one in parts] for parts in (experts.parts, memory)
    )
    return wanted == there


class ExpertSlots:
    """Places for experts on the device.

    Args:
        like: Experts of their form.
        memory: Their memory.

    Attributes:
        gate_up: Gate and up projections of the experts in them.
        down: Their down projections.
    """

    def __init__(self, like: Projections, memory: SlotMemory) -> None:
        self._memory = memory
        self.gate_up, self.down = (one.over(part) for one, part in zip(like, memory, strict=True))

    def __len__(self) -> int:
        return self._memory[0][0].shape[0]

    def fill(self, slot: int, host: Projections, expert: int) -> None:
        """Copy an expert into a slot."""
        for memory, source in zip(self._memory, host, strict=True):
            for place, values in zip(memory, source.parts, strict=True):
                place[slot].copy_(values[expert], non_blocking=True)


class DeviceExperts:
    """The experts of a layer.

    Args:
        host: All of them, E, in host memory.
        own: Slots of the experts that stay.
        passage: Slots that others pass through, in parts of one size, shared by all layers. While
            products read one part the next is filled.
        cache: Decides which experts stay; it has no other layer.
        copies: Copies to the device.
        activation: How gates open.
        kernels: Kernel set of the model.
    """

    needs_rows = True

    def __init__(
        self,
        host: Projections,
        own: ExpertSlots,
        passage: Sequence[ExpertSlots],
        cache: ExpertCache,
        copies: ExpertCopies,
        activation: Activation,
        kernels: Kernels,
    ) -> None:
        self._host = host
        self._count = host[0].parts[0].shape[0]
        self._own, self._passage = own, passage
        self._copies, self._activation, self._kernels = copies, activation, kernels
        self._free = list(range(len(own)))
        self._slots: dict[int, int] = {}
        self._cache = cache
        size = sum(part[0].nbytes for one in host for part in one.parts)
        self._layer = cache.add_layer(self, [size] * self._count)

    def hold(self, expert: int) -> None:
        """See `ExpertMemory`."""
        slot = self._slots[expert] = self._free.pop()
        self._own.fill(slot, self._host, expert)

    def release(self, expert: int) -> None:
        """See `ExpertMemory`."""
        self._free.append(self._slots.pop(expert))

    def apply(self, x: Tensor, routes: Routes, rows: ExpertRows | None, out: Tensor) -> None:
        """See `RoutedExperts`; rows without an expert count as zero."""
        assert rows is not None, "these experts compute in buffers"
        none = self._count
        chosen = routes.chosen.flatten()
        tokens = np.bincount(chosen.cpu().numpy(), minlength=none + 1)  # waits for the routes
        tokens[none] = 0
        with self._copies.beside():
            passing = self._cache.need(self._layer, np.flatnonzero(tokens).tolist())
        arrived = self._copies.arrival()
        stay = len(self._own)
        experts = np.full(stay + len(passing), none)  # by place: slots, then those that pass
        for expert, slot in self._slots.items():
            experts[slot] = expert
        experts[stay:] = passing
        places = np.full(none + 1, len(experts))  # by expert
        places[experts] = np.arange(len(experts))
        places[none] = len(experts)
        starts = np.concatenate(([0], np.cumsum(tokens[experts])))  # rows, by place
        place = to_device(places.tolist(), torch.int64, x.device)[chosen]
        order = self._kernels.sort_choices(place.view_as(routes.chosen), len(experts) + 1)
        torch.index_select(x, 0, order.tokens, out=rows.sorted)
        rows.sorted[int(starts[-1]) :].zero_()

        parts = len(self._passage)
        size = len(self._passage[0])
        waves = [slice(at, at + size) for at in range(stay, len(experts), size)]
        arrivals = [self._fetch(at % parts, experts[wave]) for at, wave in enumerate(waves[:parts])]
        self._copies.await_arrival(arrived)
        self._multiply(self._own, starts[: stay + 1], rows)
        for at, wave in enumerate(waves):
            self._copies.await_arrival(arrivals[at])
            slots = self._passage[at % parts]
            self._multiply(slots, starts[wave.start : wave.stop + 1], rows)
            if at + parts < len(waves):
                arrivals.append(self._fetch(at % parts, experts[waves[at + parts]]))
        self._kernels.sum_choices(rows.sorted, order, routes.shares, out)

    def _fetch(self, part: int, experts: Numbers) -> Any:
        """Copy experts into a part of the passage; returns a mark behind the copies."""
        slots = self._passage[part]
        with self._copies.beside():
            for slot, expert in enumerate(experts.tolist()):
                slots.fill(slot, self._host, expert)
        return self._copies.arrival()

    def _multiply(self, slots: ExpertSlots, starts: Numbers, rows: ExpertRows) -> None:
        """Replace rows by what their experts make of them.

        Args:
            slots: Experts of consecutive rows.
            starts: First row of each that has rows or precedes one, and the end of the last.
            rows: Sorted rows.
        """
        part = slice(int(starts[0]), int(starts[-1]))
        if part.start == part.stop:
            return
        bounds = np.pad(starts - part.start, (0, len(slots) + 1 - len(starts)), mode="edge")
        x, gate_up, inner = rows.sorted[part], rows.gate_up[part], rows.inner[part]
        start = to_device(bounds.tolist(), torch.int32, x.device)
        slots.gate_up.apply(x, start, gate_up)
        self._kernels.gate_mul(gate_up, inner, self._activation)
        slots.down.apply(inner, start, x)

"""Experts beyond a bound of a device's memory: all in host memory, some on the device as well.

Each layer has slots for experts that stay. What else a forward needs passes through slots that all
layers share, half of them filled while products read the other half. A layer computes in waves: one
with the experts that stay, and one for each half that passes.

Letters of the shapes: T tokens, A experts of a token, E experts, W hidden width, I inner width, N
outputs, S slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from agentrt.engine.kv.transfer import to_device
from agentrt.engine.ops.expert_cache import ExpertCache
from agentrt.engine.ops.expert_copies import ExpertCopies
from agentrt.engine.ops.experts import ExpertRows, Routes
from agentrt_kernels.contract import Activation, Kernels

Numbers = npt.NDArray[np.int64]
HostExpert = tuple[Tensor, Tensor]
"""Gate and up projection `[2 * I, W]` and down projection `[W, I]` of an expert."""


class ExpertSlots:
    """Places for experts on the device.

    Args:
        count: S.
        like: An expert of their shape and dtype.
        device: The device.

    Attributes:
        gate_up: `[S, 2 * I, W]`.
        down: `[S, W, I]`.
    """

    def __init__(self, count: int, like: HostExpert, device: torch.device) -> None:
        self.gate_up, self.down = (
            torch.empty((count, *one.shape), dtype=one.dtype, device=device) for one in like
        )

    def __len__(self) -> int:
        return self.gate_up.shape[0]

    def fill(self, slot: int, expert: HostExpert) -> None:
        """Copy an expert into a slot."""
        for place, source in zip((self.gate_up[slot], self.down[slot]), expert, strict=True):
            place.copy_(source, non_blocking=True)


class DeviceExperts:
    """The experts of a layer.

    Args:
        host: All of them, E.
        biases: `[E, 2 * I]` and `[E, W]` on the device, or None.
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
        host: Sequence[HostExpert],
        biases: tuple[Tensor, Tensor] | None,
        own: ExpertSlots,
        passage: Sequence[ExpertSlots],
        cache: ExpertCache,
        copies: ExpertCopies,
        activation: Activation,
        kernels: Kernels,
    ) -> None:
        self._host, self._biases = host, biases
        self._own, self._passage = own, passage
        self._copies, self._activation, self._kernels = copies, activation, kernels
        self._device = own.gate_up.device
        self._loops = self._device.type == "cpu" and kernels.name in ("torch", "cpu")
        self._free = list(range(len(own)))
        self._slots: dict[int, int] = {}
        self._cache = cache
        size = sum(one.nbytes for one in host[0])
        self._layer = cache.add_layer(self, [size] * len(host))

    def hold(self, expert: int) -> None:
        """See `ExpertMemory`."""
        slot = self._slots[expert] = self._free.pop()
        self._own.fill(slot, self._host[expert])

    def release(self, expert: int) -> None:
        """See `ExpertMemory`."""
        self._free.append(self._slots.pop(expert))

    def apply(self, x: Tensor, routes: Routes, rows: ExpertRows | None, out: Tensor) -> None:
        """See `RoutedExperts`; rows without an expert count as zero."""
        assert rows is not None, "these experts compute in buffers"
        each, none = routes.chosen.shape[1], len(self._host)
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
        place = to_device(places.tolist(), torch.int64, self._device)[chosen]
        order = place.sort(stable=True).indices
        torch.index_select(x, 0, order // each, out=rows.sorted)
        rows.sorted[int(starts[-1]) :].zero_()

        parts = len(self._passage)
        size = len(self._passage[0])
        waves = [slice(at, at + size) for at in range(stay, len(experts), size)]
        arrivals = [self._fetch(at % parts, experts[wave]) for at, wave in enumerate(waves[:parts])]
        self._copies.await_arrival(arrived)
        self._multiply(self._own, experts[:stay], starts[: stay + 1], rows)
        for at, wave in enumerate(waves):
            self._copies.await_arrival(arrivals[at])
            slots = self._passage[at % parts]
            self._multiply(slots, experts[wave], starts[wave.start : wave.stop + 1], rows)
            if at + parts < len(waves):
                arrivals.append(self._fetch(at % parts, experts[waves[at + parts]]))
        returned = torch.empty_like(rows.sorted).index_copy_(0, order, rows.sorted)
        returned = returned.view(x.shape[0], each, x.shape[1])
        out.copy_((returned * routes.shares.float()[:, :, None]).sum(1))

    def _fetch(self, part: int, experts: Numbers) -> Any:
        """Copy experts into a part of the passage; returns a mark behind the copies."""
        slots = self._passage[part]
        with self._copies.beside():
            for slot, expert in enumerate(experts.tolist()):
                slots.fill(slot, self._host[expert])
        return self._copies.arrival()

    def _multiply(
        self, slots: ExpertSlots, experts: Numbers, starts: Numbers, rows: ExpertRows
    ) -> None:
        """Replace rows by what their experts make of them.

        Args:
            slots: Experts of consecutive rows.
            experts: Their numbers `[S]`.
            starts: First row of each, and behind the last, `[S + 1]`.
            rows: Sorted rows.
        """
        part = slice(int(starts[0]), int(starts[-1]))
        if part.start == part.stop:
            return
        starts = starts - part.start
        x, gate_up, inner = rows.sorted[part], rows.gate_up[part], rows.inner[part]
        biases = self._biases or (None, None)
        self._product(x, slots.gate_up, biases[0], experts, starts, gate_up)
        self._kernels.gate_mul(gate_up, inner, self._activation)
        self._product(inner, slots.down, biases[1], experts, starts, x)

    def _product(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        experts: Numbers,
        starts: Numbers,
        out: Tensor,
    ) -> None:
        if self._loops:
            for slot, (first, past) in enumerate(pairwise(starts.tolist())):
                matrix, into = weight[slot].t(), out[first:past]
                if first < past and bias is None:
                    torch.mm(x[first:past], matrix, out=into)
                elif first < past and bias is not None:
                    torch.addmm(bias[int(experts[slot])], x[first:past], matrix, out=into)
            return
        start = to_device(starts.tolist(), torch.int32, self._device)
        self._kernels.grouped_linear(x, weight[: len(experts)], start, out)
        if bias is not None:
            of_rows = np.repeat(experts, np.diff(starts)).tolist()
            out.add_(bias[to_device(of_rows, torch.int64, self._device)])

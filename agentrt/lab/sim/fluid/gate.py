"""The admission gate of each engine of a fleet, and the order of those that wait there."""

from __future__ import annotations

from typing import Literal

import numpy as np

from agentrt.lab.sim.fluid.library import Floats, Ints

FleetOrder = Literal["fcfs", "rwa"]
AGEING = 8.0
_NOTHING = 1e-3  # what adding and taking away may leave
_LOOKED_AT = 16
"""Programs that may pass one that does not fit."""


class FleetGate:
    """Lets programs begin while the peaks of those that did still fit.

    Args:
        engines: How many.
        limit_tokens: Of each; infinite lets all in.
        order: Who goes first: who came first, or who needs the least.
    """

    def __init__(self, engines: int, limit_tokens: float, order: FleetOrder) -> None:
        self._limit_tokens = limit_tokens
        self._order = order
        self._committed = np.zeros(engines)
        self._waiting: list[list[int]] = [[] for _ in range(engines)]
        self._about: dict[int, tuple[float, float, float]] = {}

    @property
    def waiting(self) -> int:
        """Programs that wait."""
        return len(self._about)

    def come(
        self, slots: Ints, engines: Ints, peaks: Floats, sizes_s: Floats, at_s: Floats
    ) -> None:
        """Programs want to begin.

        Args:
            slots: Of the programs.
            engines: Of each.
            peaks: Tokens that each will need.
            sizes_s: Service that each will need, as past ones tell.
            at_s: When each came.
        """
        columns = (slots, engines, peaks, sizes_s, at_s)
        for slot, engine, *about in zip(*(one.tolist() for one in columns), strict=True):
            self._about[slot] = (about[0], about[1], about[2])
            self._waiting[engine].append(slot)

    def left(self, engines: Ints, peaks: Floats) -> None:
        """Programs are over."""
        np.subtract.at(self._committed, engines, peaks)

    def let_in(self, engines: Ints, now_s: float) -> Ints:
        """Slots that begin at these engines now."""
        begun: list[int] = []
        for engine in np.unique(engines).tolist():
            waiting = self._waiting[engine]
            if waiting:
                begun += self._at(engine, waiting, now_s)
        return np.array(begun, dtype=np.int64)

    def _at(self, engine: int, waiting: list[int], now_s: float) -> list[int]:
        if self._order == "rwa" and len(waiting) > 1:
            waiting.sort(key=lambda slot: self._aged_s(slot, now_s))
        begun: list[int] = []
        passed = 0
        for slot in list(waiting):
            peak = self._about[slot][0]
            committed = float(self._committed[engine])
            if committed > _NOTHING and committed + peak > self._limit_tokens:
                passed += 1
                if passed > _LOOKED_AT:
                    break
                continue
            self._committed[engine] += peak
            waiting.remove(slot)
            del self._about[slot]
            begun.append(slot)
        return begun

    def _aged_s(self, slot: int, now_s: float) -> float:
        """Remaining work, less the longer it waits: as the policy `rwa` has it."""
        _, size_s, came_s = self._about[slot]
        return size_s / (1 + (now_s - came_s) / (AGEING * size_s + 0.05))

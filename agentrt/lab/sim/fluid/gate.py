"""The admission gate of each engine of a fleet, and the order of the programs that wait there."""

from __future__ import annotations

import numpy as np

from agentrt.analysis.statistics import Floats
from agentrt.base.config import PolicyName
from agentrt.lab.sim.fluid.library import Ints

AGEING = 8.0
_NOTHING = 1e-3  # tokens that rounding leaves
_LOOKED_AT = 16
"""Programs that are tried after one that does not fit."""


class FleetGate:
    """Admits programs as long as the peaks of the admitted ones fit.

    Args:
        engines: Number of engines.
        limit_tokens: KV tokens that an engine commits; infinite admits all.
        order: `rwa` puts the programs with the least work first, any other policy the earliest.
    """

    def __init__(self, engines: int, limit_tokens: float, order: PolicyName) -> None:
        self._limit_tokens = limit_tokens
        self._order = order
        self._committed = np.zeros(engines)
        self._waiting: list[list[int]] = [[] for _ in range(engines)]
        self._about: dict[int, tuple[float, float, float]] = {}

    @property
    def waiting(self) -> int:
        """Number of programs that wait."""
        return len(self._about)

    def come(
        self, slots: Ints, engines: Ints, peaks: Floats, sizes_s: Floats, at_s: Floats
    ) -> None:
        """Add programs that arrive.

        Args:
            slots: Slots of the programs.
            engines: Engine of each.
            peaks: Estimated KV tokens that each needs at most.
            sizes_s: Estimated service of each.
            at_s: Arrival of each.
        """
        columns = (slots, engines, peaks, sizes_s, at_s)
        for slot, engine, *about in zip(*(one.tolist() for one in columns), strict=True):
            self._about[slot] = (about[0], about[1], about[2])
            self._waiting[engine].append(slot)

    def left(self, engines: Ints, peaks: Floats) -> None:
        """Release the memory of programs that are over."""
        np.subtract.at(self._committed, engines, peaks)

    def let_in(self, engines: Ints, now_s: float) -> Ints:
        """Admit programs to these engines; returns their slots."""
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
        """Remaining work, which falls as the program waits, like in the policy `rwa`."""
        _, size_s, came_s = self._about[slot]
        return size_s / (1 + (now_s - came_s) / (AGEING * size_s + 0.05))

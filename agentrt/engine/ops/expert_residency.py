"""Which experts are resident in bounded memory: a pure decision, learned from their load.

An expert's heat is the number of forwards that took it, each of which counts less the longer ago it
was. What a forward needs and is not resident is admitted while there is room, and then only in
place of experts that are colder by more than one use. So a prompt that takes every expert once does
not push out those that most steps take, as it would where the least recently used one goes.

Letters of the shapes: E experts of a layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

HALF_LIFE = 64
"""Forwards after which a use counts half: some sentences of decode steps."""
MARGIN = 1.0
"""Uses by which an expert has to be hotter than those in whose place it comes: between nearly equal
ones, a use of either would move memory each time."""

Place = tuple[int, int]
"""Number of a layer, and of an expert in it."""


@dataclass(frozen=True, slots=True)
class ResidencyChange:
    """Decision about the experts that a layer needs.

    Attributes:
        hits: Needed experts that were resident.
        evicted: Experts that go, coldest first, before any is admitted.
        admitted: Needed experts that become resident, hottest first.
        passing: Needed experts that do not: they are read where they lie.
    """

    hits: int
    evicted: tuple[Place, ...] = ()
    admitted: tuple[Place, ...] = ()
    passing: tuple[Place, ...] = ()


class ExpertResidency:
    """Resident experts of all layers that share a bound.

    Args:
        bound_bytes: Most bytes of resident experts.
        half_life: Forwards after which a use counts half.

    Attributes:
        bound_bytes: Most bytes of resident experts.
        resident_bytes: Bytes of those that are.

    Example:
        >>> residency = ExpertResidency(100)
        >>> layer = residency.add_layer([60, 60])
        >>> residency.note(layer, [1])
        >>> change = residency.decide(layer, [1])
        >>> change.admitted
        ((0, 1),)
        >>> residency.apply(change)
        >>> residency.resident_bytes
        60
    """

    def __init__(self, bound_bytes: int, half_life: float = HALF_LIFE) -> None:
        self.bound_bytes = bound_bytes
        self.resident_bytes = 0
        self._keep = 0.5 ** (1 / half_life)
        self._first = [0]  # of each layer, and behind the last
        self._heat: npt.NDArray[np.float64] = np.zeros(0)
        self._sizes: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._resident: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)

    def add_layer(self, sizes: Sequence[int]) -> int:
        """Number of a new layer, whose experts have these bytes `[E]`; none is resident."""
        self._first.append(self._first[-1] + len(sizes))
        self._heat = np.concatenate((self._heat, np.zeros(len(sizes))))
        self._sizes = np.concatenate((self._sizes, np.asarray(sizes, np.int64)))
        self._resident = np.concatenate((self._resident, np.zeros(len(sizes), np.bool_)))
        return len(self._first) - 2

    def is_resident(self, place: Place) -> bool:
        """Whether an expert is resident."""
        return bool(self._resident[self._flat(place)])

    def heat(self, place: Place) -> float:
        """Decayed number of forwards that took an expert."""
        return float(self._heat[self._flat(place)])

    def note(self, layer: int, needed: Sequence[int]) -> None:
        """Learn that a forward takes these experts of a layer, each given once."""
        heat = self._heat[self._first[layer] : self._first[layer + 1]]
        heat *= self._keep
        heat[np.asarray(needed, np.int64)] += 1.0

    def decide(self, layer: int, needed: Sequence[int]) -> ResidencyChange:
        """Decide about the experts that a layer needs now; nothing is changed.

        Args:
            layer: Number of the layer.
            needed: Numbers of the experts of its next products, each once.
        """
        wanted = np.asarray(needed, np.int64) + self._first[layer]
        missing = wanted[~self._resident[wanted]]
        hits = len(wanted) - len(missing)
        if not len(missing):
            return ResidencyChange(hits)
        leaving = self._resident.copy()
        leaving[wanted] = False
        candidates = np.flatnonzero(leaving)
        candidates = candidates[np.argsort(self._heat[candidates], kind="stable")].tolist()
        hottest = missing[np.lexsort((missing, -self._heat[missing]))].tolist()
        room, gone = self.bound_bytes - self.resident_bytes, 0
        admitted: list[int] = []
        passing: list[int] = []
        for one in hottest:
            size, found, until = int(self._sizes[one]), room, gone
            while found < size and until < len(candidates):
                if self._heat[candidates[until]] + MARGIN >= self._heat[one]:
                    break
                found += int(self._sizes[candidates[until]])
                until += 1
            if found < size:
                passing.append(one)
                continue
            room, gone = found - size, until
            admitted.append(one)
        return ResidencyChange(
            hits,
            self._places(candidates[:gone]),
            self._places(admitted),
            self._places(passing),
        )

    def apply(self, change: ResidencyChange) -> None:
        """Take a decision as done."""
        for places, stays in ((change.evicted, False), (change.admitted, True)):
            flat = [self._flat(one) for one in places]
            self._resident[flat] = stays
            moved = int(self._sizes[flat].sum())
            self.resident_bytes += moved if stays else -moved

    def _flat(self, place: Place) -> int:
        return self._first[place[0]] + place[1]

    def _places(self, flat: Sequence[int]) -> tuple[Place, ...]:
        layers = np.searchsorted(self._first, flat, side="right") - 1
        return tuple(
            (int(layer), one - self._first[layer]) for layer, one in zip(layers, flat, strict=True)
        )

"""Programs under way: which nodes they still wait for, and how much memory they fill."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentrt.lab.sim.fluid.library import Floats, Ints, ProgramLibrary

_NEVER = 60_000
"""Stands for nodes that a program does not have."""


@dataclass(frozen=True, slots=True)
class ReadyNodes:
    """Nodes whose inputs are all there; all columns `[nodes]`.

    Attributes:
        slot: Of the program.
        node: In the library.
        at_s: Since when.
    """

    slot: Ints
    node: Ints
    at_s: Floats


class Slots:
    """A table of programs under way that grows as needed.

    Args:
        library: What programs there are.

    Attributes:
        program: `[slots]` in the library.
        number: `[slots]` in the order of arrival.
        engine: `[slots]` that a program, or its latest generation, is on.
        arrived_s: `[slots]`.
        kept_tokens: `[slots]` KV that it has computed so far.
        live: `[slots]` bool.
    """

    def __init__(self, library: ProgramLibrary, count: int = 1024) -> None:
        self._library = library
        widest = library.widest
        self._waits = np.full((library.programs, widest), _NEVER, dtype=np.uint16)
        for at in range(library.programs):
            first, end = library.first[at], library.first[at + 1]
            self._waits[at, : end - first] = library.waits_for[first:end]
        self._missing: NDArray[np.uint16] = np.zeros((0, widest), dtype=np.uint16)
        self._results = np.zeros(0, dtype=np.int64)
        self.program = np.zeros(0, dtype=np.int64)
        self.number = np.zeros(0, dtype=np.int64)
        self.engine = np.zeros(0, dtype=np.int64)
        self.arrived_s = np.zeros(0)
        self.kept_tokens = np.zeros(0)
        self.live = np.zeros(0, dtype=np.bool_)
        self._free: list[int] = []
        self._grow(count)

    def take(self, program: Ints, number: Ints, engine: Ints, arrived_s: Floats) -> Ints:
        """Slots for programs that arrive."""
        count = len(program)
        while len(self._free) < count:
            self._grow(len(self.live))
        slots = np.array(self._free[-count:], dtype=np.int64)
        del self._free[-count:]
        self._missing[slots] = self._waits[program]
        self._results[slots] = self._library.results[program]
        self.program[slots] = program
        self.number[slots] = number
        self.engine[slots] = engine
        self.arrived_s[slots] = arrived_s
        self.kept_tokens[slots] = 0.0
        self.live[slots] = True
        return slots

    def begin(self, slots: Ints, at_s: Floats) -> ReadyNodes:
        """The nodes of programs that wait for nothing."""
        rows, columns = np.nonzero(self._missing[slots] == 0)
        chosen = slots[rows]
        return ReadyNodes(chosen, self._library.first[self.program[chosen]] + columns, at_s[rows])

    def ended(self, slot: Ints, node: Ints, at_s: Floats) -> ReadyNodes:
        """Nodes have ended, in the order of `at_s`; those that waited for nothing else."""
        library = self._library
        begin = library.after_first[node]
        sizes = library.after_first[node + 1] - begin
        total = int(sizes.sum())
        if total == 0:
            return ReadyNodes(slot[:0], node[:0], at_s[:0])
        offsets = np.arange(total) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        targets = library.after[np.repeat(begin, sizes) + offsets]
        rows = np.repeat(slot, sizes)
        columns = targets - library.first[self.program[rows]]
        flat = rows * self._missing.shape[1] + columns
        np.subtract.at(self._missing.reshape(-1), flat, 1)
        unique, last = np.unique(flat[::-1], return_index=True)
        instants = np.repeat(at_s, sizes)[::-1][last]  # the latest of each
        done = self._missing.reshape(-1)[unique] == 0
        kept = last[done]
        return ReadyNodes(rows[::-1][kept], targets[::-1][kept], instants[done])

    def results(self, slot: Ints, node: Ints, at_s: Floats) -> tuple[Ints, Floats]:
        """Programs that are over with these ends, given in the order of `at_s`, and since when."""
        counts = self._library.counts[node]
        slot, at_s = slot[counts], at_s[counts]
        order = np.argsort(slot, kind="stable")
        slot, at_s = slot[order], at_s[order]
        if not len(slot):
            return slot, at_s
        new = np.concatenate(([True], slot[1:] != slot[:-1]))
        starts = np.flatnonzero(new)
        rank = np.arange(len(slot)) - np.repeat(starts, np.diff(np.append(starts, len(slot))))
        over = rank + 1 == self._results[slot]
        np.subtract.at(self._results, slot, 1)
        return slot[over], at_s[over]

    def give_back(self, slots: Ints) -> None:
        """Programs are over."""
        self.live[slots] = False
        self.kept_tokens[slots] = 0.0
        self._free.extend(slots.tolist())

    def _grow(self, more: int) -> None:
        old = len(self.live)
        self._free.extend(range(old + more - 1, old - 1, -1))
        blank = np.full((more, self._missing.shape[1]), _NEVER, dtype=np.uint16)
        self._missing = np.concatenate((self._missing, blank))
        self._results = np.concatenate((self._results, np.zeros(more, dtype=np.int64)))
        for name in ("program", "number", "engine"):
            column = np.concatenate((getattr(self, name), np.zeros(more, dtype=np.int64)))
            setattr(self, name, column)
        for name in ("arrived_s", "kept_tokens"):
            setattr(self, name, np.concatenate((getattr(self, name), np.zeros(more))))
        self.live = np.concatenate((self.live, np.zeros(more, dtype=np.bool_)))

"""Programs in progress: the nodes that each still waits for, and its KV memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentrt.analysis.statistics import Floats
from agentrt.lab.sim.fluid.library import Ints, ProgramLibrary
from agentrt.lab.sim.fluid.tasks import NodeRows

_NEVER = 60_000
"""Stands for nodes that a program does not have."""
_COLUMNS = ("program", "number", "engine", "arrived_s", "kept_tokens", "live")


@dataclass(slots=True, eq=False)
class ReadyNodes(NodeRows):
    """Nodes whose inputs are all there.

    Attributes:
        at_s: Instant from which they are.
    """

    at_s: Floats


class Slots:
    """A table of programs in progress that grows as needed.

    Args:
        library: Programs to draw from.
        count: Slots at first.

    Attributes:
        program: `[slots]` index of the program in the library.
        number: `[slots]` its place in the order of arrival.
        engine: `[slots]` engine of the program, or of its latest generation.
        arrived_s: `[slots]` instant of its arrival.
        kept_tokens: `[slots]` KV tokens that it has computed so far.
        live: `[slots]` bool: the slot is taken.
    """

    def __init__(self, library: ProgramLibrary, count: int = 1024) -> None:
        self._library = library
        self._waits = np.full((library.programs, library.widest), _NEVER, dtype=np.uint16)
        for at in range(library.programs):
            first, end = library.first[at], library.first[at + 1]
            self._waits[at, : end - first] = library.waits_for[first:end]
        self._missing: NDArray[np.uint16] = np.zeros((count, library.widest), dtype=np.uint16)
        self._results = np.zeros(count, dtype=np.int64)
        self.program = np.zeros(count, dtype=np.int64)
        self.number = np.zeros(count, dtype=np.int64)
        self.engine = np.zeros(count, dtype=np.int64)
        self.arrived_s = np.zeros(count)
        self.kept_tokens = np.zeros(count)
        self.live = np.zeros(count, dtype=np.bool_)
        self._free = list(reversed(range(count)))

    def take(self, program: Ints, number: Ints, engine: Ints, arrived_s: Floats) -> Ints:
        """Slots for programs that arrive."""
        count = len(program)
        while len(self._free) < count:
            self._double()
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
        """The nodes of programs that wait for no other node."""
        rows, columns = np.nonzero(self._missing[slots] == 0)
        chosen = slots[rows]
        return ReadyNodes(chosen, self._library.first[self.program[chosen]] + columns, at_s[rows])

    def ended(self, slot: Ints, node: Ints, at_s: Floats) -> ReadyNodes:
        """Note ended nodes, in the order of `at_s`; returns those that waited for nothing else."""
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
        """Programs that end with these nodes, given in the order of `at_s`, and their ends."""
        counts = self._library.counts[node]
        slot, at_s = slot[counts], at_s[counts]
        order = np.argsort(slot, kind="stable")
        slot, at_s = slot[order], at_s[order]
        if not len(slot):
            return slot, at_s
        starts = np.flatnonzero(np.concatenate(([True], slot[1:] != slot[:-1])))
        rank = np.arange(len(slot)) - np.repeat(starts, np.diff(np.append(starts, len(slot))))
        over = rank + 1 == self._results[slot]
        np.subtract.at(self._results, slot, 1)
        return slot[over], at_s[over]

    def give_back(self, slots: Ints) -> None:
        """Free the slots of programs that are over."""
        self.live[slots] = False
        self.kept_tokens[slots] = 0.0
        self._free.extend(slots.tolist())

    def _double(self) -> None:
        count = len(self.live)
        self._free.extend(reversed(range(count, 2 * count)))
        for name in (*_COLUMNS, "_missing", "_results"):
            column = getattr(self, name)
            setattr(self, name, np.concatenate((column, np.zeros_like(column))))

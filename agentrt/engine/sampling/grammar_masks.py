"""Grammar bitmasks of a step's rows, filled beside the forward where that pays.

No mask holds up a step for long. A row with a late mask skips the step; from then on the mask is
detached, that is filled apart from the others, until it has been quick again.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from concurrent.futures import wait
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from agentrt.base.errors import ConstraintError
from agentrt.engine.kv.transfer import to_device
from agentrt.engine.sampling.grammar_threads import GrammarFuture, GrammarThreads
from agentrt.engine.sequence.grammar_state import GrammarState
from agentrt.engine.sequence.reasoning import ReasoningState
from agentrt.engine.sequence.sequence import Sequence
from agentrt.structured import MaskPool, bitmask_words, fill_bitmasks
from agentrt.structured.matcher import Masking, MaskRows

_DETACHED_THREADS = 2

_GrammarRows = list[tuple[int, GrammarState | ReasoningState]]
"""Rows that have a constraint, each with its grammar state."""


class MaskBuffers:
    """Memory for the masks of a step; allocating it costs half as much as filling it.

    Attributes:
        rows: Number of rows.
        array: `[rows, words]` int32.
        bitmask: The same memory as a tensor.
    """

    __slots__ = ("array", "bitmask", "rows")

    def __init__(self, rows: int, logits_size: int) -> None:
        self.rows = rows
        self.array: MaskRows = np.empty((rows, bitmask_words(logits_size)), dtype=np.int32)
        self.bitmask = torch.from_numpy(self.array)


class GrammarMasks:
    """Grammar masks of one step's rows.

    Args:
        rows: All sequences of the step.
        buffers: Memory of the masks; None if no row has a constraint.
        pool: Fills many masks at once.
        fill_rows: Rows with masks to fill.

    Attributes:
        bitmask: `[rows, words]` int32, or None if every token is allowed in every row.
        failed: Error of each row with a failed grammar.
        late: Rows with a mask that is not ready; their samples do not count.
        seconds: Seconds that the step spent on each row's mask, or waiting for it.
        filling_s: Seconds that filling took.
    """

    __slots__ = ("bitmask", "failed", "filling_s", "late", "seconds")

    def __init__(
        self,
        rows: Rows[Sequence],
        buffers: MaskBuffers | None,
        pool: MaskPool,
        fill_rows: Rows[int],
    ) -> None:
        self.bitmask: Tensor | None = None
        self.seconds = [0.0] * len(rows)
        self.failed: dict[int, Exception] = {}
        self.late: set[int] = set()
        self.filling_s = 0.0
        if buffers is None:
            return
        self.bitmask = buffers.bitmask
        buffers.array.fill(-1)
        began = perf_counter()
        states: list[tuple[Masking, int]] = []
        for row in fill_rows:
            grammar = rows[row].grammar
            assert grammar is not None
            try:
                states.append((grammar.mask_state, row))
            except Exception as error:  # fails one row only
                self.failed[row] = error
        self._fill(states, buffers.array, pool)
        self.filling_s = perf_counter() - began
        for row in fill_rows:
            self.seconds[row] = self.filling_s / len(fill_rows)

    def _fill(self, states: list[tuple[Masking, int]], array: MaskRows, pool: MaskPool) -> None:
        """Fill all rows in one call; if that fails, row by row, to find the faulty one."""
        try:
            self.failed |= fill_bitmasks(states, array, pool)
        except Exception:
            for state, row in states:
                try:
                    self.failed |= fill_bitmasks([(state, row)], array)
                except Exception as error:
                    self.failed[row] = error

    def copy_row(self, row: int, masks: GrammarMasks, source_row: int) -> None:
        """Copy a row that was filled detached."""
        assert self.bitmask is not None
        assert masks.bitmask is not None
        self.bitmask[row] = masks.bitmask[source_row]
        if source_row in masks.failed:
            self.failed[row] = masks.failed[source_row]

    def bitmask_for(self, logits: Tensor) -> Tensor | None:
        """`[rows, words]` int32 bits of the allowed tokens, on the device of `logits`, or None."""
        if self.bitmask is None or logits.is_cpu:
            return self.bitmask
        return to_device(self.bitmask, torch.int32, logits.device)


@dataclass(frozen=True, slots=True)
class DetachedMask:
    """A mask that is filled while steps go on; meanwhile its state belongs to that thread.

    Attributes:
        masks: The masks being filled.
        row: Row of the mask among them.
        is_alone: Whether no other row waits for them.
    """

    masks: GrammarFuture[GrammarMasks]
    row: int
    is_alone: bool = False

    def wait(self, timeout_s: float) -> bool:
        """Wait until the state is free again; False if it is not within that time."""
        return not wait([self.masks], timeout_s).not_done


class MaskFiller:
    """Fills masks, on a thread once they have been slow.

    Attributes:
        row_budget_s: Longest time for which the mask of one row may hold up a step.
        thread_pays_s: Masks that take longer are filled on a thread while the forward runs.
        limit_s: Longest time of one mask; the request of a row that exceeds it fails.
    """

    def __init__(self, logits_size: int) -> None:
        self.row_budget_s = 0.01
        self.thread_pays_s = 0.0003
        self.limit_s = 10.0
        self._logits_size = logits_size
        self._row_s = 0.0
        self._pool = MaskPool()
        self._buffers = MaskBuffers(1, logits_size)
        self._worker: GrammarThreads | None = None
        self._detached: GrammarThreads | None = None

    def begin_masks(self, rows: Rows[Sequence]) -> GrammarFuture[GrammarMasks] | None:
        """Begin on the masks of the next step; None leaves them to `finish_masks`."""
        grammar_rows = _grammar_rows(rows)
        fill_rows = self._begin_detached(rows, grammar_rows)
        if len(fill_rows) * self._row_s < self.thread_pays_s:
            return None
        if self._worker is None:
            self._worker = GrammarThreads(1, "agentrt-masks")
        buffers = MaskBuffers(len(rows), self._logits_size)
        fill = partial(GrammarMasks, list(rows), buffers, self._pool, fill_rows)
        return self._worker.submit(fill)

    def finish_masks(
        self, rows: Rows[Sequence], begun: GrammarFuture[GrammarMasks] | None
    ) -> GrammarMasks:
        """Finish the masks; the time that the step waits for them is recorded on their rows.

        They are valid until the masks of another step are requested.
        """
        grammar_rows = _grammar_rows(rows)
        if not grammar_rows:
            return GrammarMasks(rows, None, self._pool, ())
        fill_rows = self._begin_detached(rows, grammar_rows)
        if begun is None:
            masks = GrammarMasks(rows, self._step_buffers(len(rows)), self._pool, fill_rows)
        else:
            masks = self._await_masks(rows, begun, fill_rows)
        if fill_rows:
            row_s = masks.filling_s / len(fill_rows)
            # A single slow mask, as a grammar's first one is, says little about the next.
            self._row_s += 0.1 * (min(row_s, 2 * self.thread_pays_s) - self._row_s)
            if row_s > self.row_budget_s:
                _mark_slow(rows, fill_rows)
        self._collect_detached(grammar_rows, masks)
        return masks

    def _replace_stuck(self) -> None:
        """Replace threads that are stuck, those with masks of requests that are over included."""
        for threads in (self._worker, self._detached):
            if threads is not None:
                threads.replace_stuck(self.limit_s)

    def _given_up(self) -> ConstraintError:
        return ConstraintError(
            f"a mask of the grammar takes longer than {self.limit_s:g} s",
            hint="Make the grammar less ambiguous: fewer repetitions that follow each other",
        )

    def abandon(self, sequence: Sequence) -> None:
        """Give up the mask of a sequence that has ended, so that no other mask waits for it."""
        detached = None if sequence.grammar is None else sequence.grammar.mask_place.under_way
        if self._detached is not None and isinstance(detached, DetachedMask) and detached.is_alone:
            self._detached.abandon(detached.masks)

    def close(self) -> None:
        """End the threads; those that are stuck end with the process."""
        for threads in (self._worker, self._detached):
            if threads is not None:
                threads.close()
        self._worker = self._detached = None

    def _step_buffers(self, rows: int) -> MaskBuffers:
        """Buffers for the masks of this step."""
        if self._buffers.rows != rows:
            self._buffers = MaskBuffers(rows, self._logits_size)
        return self._buffers

    def _await_masks(
        self, rows: Rows[Sequence], begun: GrammarFuture[GrammarMasks], fill_rows: list[int]
    ) -> GrammarMasks:
        """Await the begun masks; if they are late, their rows wait for them detached."""
        began = perf_counter()
        try:
            masks = begun.result(timeout=self.row_budget_s * max(1, len(fill_rows)))
        except TimeoutError:
            masks = GrammarMasks(rows, self._step_buffers(len(rows)), self._pool, ())
            _mark_slow(rows, fill_rows)
            for row in fill_rows:
                grammar = rows[row].grammar
                assert grammar is not None
                grammar.mask_place.under_way = DetachedMask(begun, row)
        waited_s = (perf_counter() - began) / max(1, len(fill_rows))
        masks.seconds = [waited_s if row in fill_rows else 0.0 for row in range(len(rows))]
        return masks

    def _begin_detached(self, rows: Rows[Sequence], grammar_rows: _GrammarRows) -> list[int]:
        """Begin on each detached mask; returns the rows that are filled together."""
        fill_rows: list[int] = []
        for row, grammar in grammar_rows:
            place = grammar.mask_place
            if place.under_way is not None:
                continue
            if not place.is_apart:
                fill_rows.append(row)
                continue
            if self._detached is None:
                self._detached = GrammarThreads(_DETACHED_THREADS, "agentrt-late-masks")
            buffers = MaskBuffers(1, self._logits_size)
            fill = partial(GrammarMasks, [rows[row]], buffers, self._pool, (0,))
            place.under_way = DetachedMask(self._detached.submit(fill), 0, is_alone=True)
        return fill_rows

    def _collect_detached(self, grammar_rows: _GrammarRows, masks: GrammarMasks) -> None:
        """Copy the detached masks that are ready within the row budget."""
        self._replace_stuck()
        ends_s = perf_counter() + self.row_budget_s
        for row, grammar in grammar_rows:
            detached = grammar.mask_place.under_way
            if not isinstance(detached, DetachedMask):
                continue
            began = perf_counter()
            wait([detached.masks], timeout=max(0.0, ends_s - began))
            masks.seconds[row] = perf_counter() - began
            if detached.masks.takes_longer(self.limit_s):
                masks.failed[row] = self._given_up()
                continue
            if not detached.masks.done():
                masks.late.add(row)
                continue
            found = detached.masks.result()
            masks.copy_row(row, found, detached.row)
            grammar.mask_place.finish(was_slow=found.filling_s > self.row_budget_s)


def _grammar_rows(rows: Rows[Sequence]) -> _GrammarRows:
    """Rows with a constraint, each with its grammar state."""
    return [(row, one.grammar) for row, one in enumerate(rows) if one.grammar is not None]


def _mark_slow(rows: Rows[Sequence], slow_rows: Rows[int]) -> None:
    """Detach these rows' masks: one of them was slow. The quick ones return after one step."""
    for row in slow_rows:
        grammar = rows[row].grammar
        assert grammar is not None
        grammar.mask_place.is_apart = True

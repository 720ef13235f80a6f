"""Masks of a step's rows, as the sampler takes them, filled beside the forward where that pays.

No mask holds up a step for long: a row whose mask is late skips the step, and is computed apart
from the others from then on, until it has turned out quick again.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from agentrt.engine.kv.transfer import to_device
from agentrt.engine.sequence.grammar_state import GrammarState
from agentrt.engine.sequence.reasoning import ReasoningState
from agentrt.engine.sequence.sequence import Sequence
from agentrt.structured import MaskPool, bitmask_words, fill_bitmasks
from agentrt.structured.matcher import Masking, MaskRows

_WORTH_A_THREAD_S = 0.0003
"""Masks that take longer than this are filled on another thread while the forward runs."""

ROW_BUDGET_S = 0.01
"""What the mask of one row may hold up a step."""

_THREADS_APART = 2

_Guides = list[tuple[int, GrammarState | ReasoningState]]
"""Rows, each with its constraint."""


class MaskBuffers:
    """Memory for the masks of a step: asking for it costs half as much as filling it.

    Attributes:
        rows: How many.
        numbers: `[rows, words]` int32.
        bits: The same memory.
    """

    __slots__ = ("bits", "numbers", "rows")

    def __init__(self, rows: int, logits_size: int) -> None:
        self.rows = rows
        self.numbers: MaskRows = np.empty((rows, bitmask_words(logits_size)), dtype=np.int32)
        self.bits = torch.from_numpy(self.numbers)


class GrammarMasks:
    """Rows of the step that have a constraint.

    Args:
        rows: All sequences of the step.
        room: For their masks; None where no row has a constraint.
        pool: Computes many masks at once.
        at: Whose masks to fill.

    Attributes:
        bits: `[rows, words]` int32, or None when every token may come in every row.
        failed: Rows whose grammar gave up, with why.
        late: Rows whose mask is not there yet: what is drawn for them does not count.
        seconds: What the step spent on each row's mask, or waiting for it.
        filling_s: What filling them took.
    """

    __slots__ = ("bits", "failed", "filling_s", "late", "seconds")

    def __init__(
        self, rows: Rows[Sequence], room: MaskBuffers | None, pool: MaskPool, at: Rows[int]
    ) -> None:
        self.bits: Tensor | None = None
        self.seconds = [0.0] * len(rows)
        self.failed: dict[int, Exception] = {}
        self.late: set[int] = set()
        self.filling_s = 0.0
        if room is None:
            return
        self.bits = room.bits
        room.numbers.fill(-1)
        began = perf_counter()
        states: list[tuple[Masking, int]] = []
        for row in at:
            guide = rows[row].guide
            assert guide is not None
            try:
                states.append((guide.masked_by, row))
            except Exception as error:  # of one row; the others go on
                self.failed[row] = error
        self._fill(states, room.numbers, pool)
        self.filling_s = perf_counter() - began
        for row in at:
            self.seconds[row] = self.filling_s / len(at)

    def _fill(
        self,
        states: list[tuple[Masking, int]],
        bits: MaskRows,
        pool: MaskPool,
    ) -> None:
        """All rows in one call; where one breaks it, row by row, to find out which."""
        try:
            self.failed |= fill_bitmasks(states, bits, pool)
        except Exception:
            for state, row in states:
                try:
                    self.failed |= fill_bitmasks([(state, row)], bits)
                except Exception as error:
                    self.failed[row] = error

    def put(self, row: int, masks: GrammarMasks, of: int) -> None:
        """Take the row `of` that was filled apart."""
        assert self.bits is not None
        assert masks.bits is not None
        self.bits[row] = masks.bits[of]
        if of in masks.failed:
            self.failed[row] = masks.failed[of]

    def words(self, beside: Tensor) -> Tensor | None:
        """`[rows, words]` int32 bits of the tokens that may come, or None when all may.

        Args:
            beside: Logits: the bits go to the same device.
        """
        if self.bits is None or beside.is_cpu:
            return self.bits
        return to_device(self.bits, torch.int32, beside.device)


@dataclass(frozen=True, slots=True)
class DetachedMask:
    """A mask that is being filled while steps go on; its state belongs to that thread meanwhile.

    Attributes:
        masks: Where it will be.
        row: Which of those.
    """

    masks: Future[GrammarMasks]
    row: int

    def wait(self) -> None:
        """Until the state is free again."""
        wait([self.masks])


class MaskFiller:
    """Fills masks, on a thread of its own once they have turned out slow."""

    def __init__(self, logits_size: int) -> None:
        self._logits_size = logits_size
        self._row_s = 0.0
        self._pool = MaskPool()
        self._kept = MaskBuffers(1, logits_size)
        self._worker: ThreadPoolExecutor | None = None
        self._aside: ThreadPoolExecutor | None = None

    def begin(self, rows: Rows[Sequence]) -> Future[GrammarMasks] | None:
        """Start on the masks of the coming step; None leaves them to `finish`."""
        guides = _guides(rows)
        together = self._begin_apart(rows, guides)
        if len(together) * self._row_s < _WORTH_A_THREAD_S:
            return None
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, thread_name_prefix="agentrt-masks")
        room = MaskBuffers(len(rows), self._logits_size)
        return self._worker.submit(GrammarMasks, list(rows), room, self._pool, together)

    def finish(self, rows: Rows[Sequence], begun: Future[GrammarMasks] | None) -> GrammarMasks:
        """The masks; what the step had to wait for them is booked on their rows.

        They hold until the masks of another draw are asked for.
        """
        guides = _guides(rows)
        if not guides:
            return GrammarMasks(rows, None, self._pool, ())
        together = self._begin_apart(rows, guides)
        if begun is None:
            masks = GrammarMasks(rows, self._room(len(rows)), self._pool, together)
        else:
            masks = self._awaited(rows, begun, together)
        if together:
            row_s = masks.filling_s / len(together)
            # One that was slow, as the first of a grammar is, says little of the next.
            self._row_s += 0.1 * (min(row_s, 2 * _WORTH_A_THREAD_S) - self._row_s)
            if row_s > ROW_BUDGET_S:
                _set_apart(rows, together)
        self._join(guides, masks)
        return masks

    def close(self) -> None:
        """End the threads."""
        for worker in (self._worker, self._aside):
            if worker is not None:
                worker.shutdown(wait=True)
        self._worker = self._aside = None

    def _room(self, rows: int) -> MaskBuffers:
        """For masks of this step."""
        if self._kept.rows != rows:
            self._kept = MaskBuffers(rows, self._logits_size)
        return self._kept

    def _awaited(
        self, rows: Rows[Sequence], begun: Future[GrammarMasks], together: list[int]
    ) -> GrammarMasks:
        """What was begun; where it is late, its rows wait for it apart."""
        began = perf_counter()
        try:
            masks = begun.result(timeout=ROW_BUDGET_S * max(1, len(together)))
        except TimeoutError:
            masks = GrammarMasks(rows, self._room(len(rows)), self._pool, ())
            _set_apart(rows, together)
            for row in together:
                guide = rows[row].guide
                assert guide is not None
                guide.apart = DetachedMask(begun, row)
        waited_s = (perf_counter() - began) / max(1, len(together))
        masks.seconds = [waited_s if row in together else 0.0 for row in range(len(rows))]
        return masks

    def _begin_apart(self, rows: Rows[Sequence], guides: _Guides) -> list[int]:
        """Start on the masks that go apart, each on its own; the rows that are left."""
        together: list[int] = []
        for row, guide in guides:
            if guide.apart is not None:
                continue
            if not guide.is_slow:
                together.append(row)
                continue
            if self._aside is None:
                self._aside = ThreadPoolExecutor(
                    _THREADS_APART, thread_name_prefix="agentrt-late-masks"
                )
            room = MaskBuffers(1, self._logits_size)
            filling = self._aside.submit(GrammarMasks, [rows[row]], room, self._pool, (0,))
            guide.apart = DetachedMask(filling, 0)
        return together

    def _join(self, guides: _Guides, masks: GrammarMasks) -> None:
        """Take in what was filled apart, as far as it is there in time."""
        ends_s = perf_counter() + ROW_BUDGET_S
        for row, guide in guides:
            apart = guide.apart
            if not isinstance(apart, DetachedMask):
                continue
            began = perf_counter()
            wait([apart.masks], timeout=max(0.0, ends_s - began))
            masks.seconds[row] = perf_counter() - began
            if not apart.masks.done():
                masks.late.add(row)
                continue
            found = apart.masks.result()
            masks.put(row, found, apart.row)
            guide.apart = None
            guide.is_slow = found.filling_s > ROW_BUDGET_S


def _guides(rows: Rows[Sequence]) -> _Guides:
    """Rows that have a constraint, with it."""
    return [(row, one.guide) for row, one in enumerate(rows) if one.guide is not None]


def _set_apart(rows: Rows[Sequence], at: Rows[int]) -> None:
    """One of these was slow: from now on each goes by itself, the quick ones once."""
    for row in at:
        guide = rows[row].guide
        assert guide is not None
        guide.is_slow = True

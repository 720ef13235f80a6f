"""Masks of a step's rows, as the sampler takes them, filled beside the forward where that pays."""

from __future__ import annotations

from collections.abc import Sequence as Rows
from concurrent.futures import Future, ThreadPoolExecutor
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from agentrt.constraints import ConstraintState, MaskPool, fill_masks, mask_words
from agentrt.engine.sequence import Sequence
from agentrt.engine.transfer import to_device

_WORTH_A_THREAD_S = 0.0003
"""Masks that take longer than this are filled on another thread while the forward runs."""


class Masks:
    """Rows of the step that have a constraint.

    Attributes:
        bits: `[rows, words]` int32, or None when every token may come in every row.
        failed: Rows whose grammar gave up, with why.
        seconds: What the step spent on each row's mask, or waiting for it.
        filling_s: What filling them took.
    """

    __slots__ = ("bits", "failed", "filling_s", "seconds")

    def __init__(self, rows: Rows[Sequence], logits_size: int, pool: MaskPool) -> None:
        self.bits: np.ndarray[tuple[int, int], np.dtype[np.int32]] | None = None
        self.seconds = [0.0] * len(rows)
        self.failed: dict[int, Exception] = {}
        self.filling_s = 0.0
        guided = [(row, one.guide) for row, one in enumerate(rows) if one.guide is not None]
        if not guided:
            return
        self.bits = np.full((len(rows), mask_words(logits_size)), -1, dtype=np.int32)
        began = perf_counter()
        states: list[tuple[ConstraintState, int]] = []
        for row, guide in guided:
            try:
                states.append((guide.masked_by, row))
            except Exception as error:  # of one row; the others go on
                self.failed[row] = error
        self._fill(states, self.bits, pool)
        self.filling_s = perf_counter() - began
        for row, _ in guided:
            self.seconds[row] = self.filling_s / len(guided)

    def _fill(
        self,
        states: list[tuple[ConstraintState, int]],
        bits: np.ndarray[tuple[int, int], np.dtype[np.int32]],
        pool: MaskPool,
    ) -> None:
        """All rows in one call; where one breaks it, row by row, to find out which."""
        try:
            self.failed |= fill_masks(states, bits, pool)
        except Exception:
            for state, row in states:
                try:
                    self.failed |= fill_masks([(state, row)], bits)
                except Exception as error:
                    self.failed[row] = error

    def words(self, device: torch.device) -> Tensor | None:
        """`[rows, words]` int32 bits of the tokens that may come, or None when all may."""
        if self.bits is None:
            return None
        return to_device(torch.from_numpy(self.bits), torch.int32, device)


class MaskFiller:
    """Fills masks, on a thread of its own once they have turned out slow."""

    def __init__(self, logits_size: int) -> None:
        self._logits_size = logits_size
        self._row_s = 0.0
        self._pool = MaskPool()
        self._worker: ThreadPoolExecutor | None = None

    def begin(self, rows: Rows[Sequence]) -> Future[Masks] | None:
        """Start on the masks of the coming step; None leaves them to `finish`."""
        guided = sum(one.guide is not None for one in rows)
        if guided * self._row_s < _WORTH_A_THREAD_S:
            return None
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, thread_name_prefix="agentrt-masks")
        return self._worker.submit(Masks, list(rows), self._logits_size, self._pool)

    def finish(self, rows: Rows[Sequence], begun: Future[Masks] | None) -> Masks:
        """The masks; what the step had to wait for them is booked on their rows."""
        guided = [index for index, one in enumerate(rows) if one.guide is not None]
        if begun is None:
            masks = Masks(rows, self._logits_size, self._pool)
        else:
            began = perf_counter()
            masks = begun.result()
            waited_s = (perf_counter() - began) / max(1, len(guided))
            masks.seconds = [waited_s if row in guided else 0.0 for row in range(len(rows))]
        if guided:
            self._row_s = 0.9 * self._row_s + 0.1 * masks.filling_s / len(guided)
        return masks

    def close(self) -> None:
        """End the thread."""
        if self._worker is not None:
            self._worker.shutdown(wait=True)
            self._worker = None

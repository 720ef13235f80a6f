"""Masks of all rows of a batch in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from llguidance import LLExecutor

from agentrt.base.errors import ConstraintError
from agentrt.structured.backends.llguidance_backend import LlguidanceState, lost_in_grammar
from agentrt.structured.closing.budget import Budgeted
from agentrt.structured.matcher import Masking, MaskRows

_WORTH_THREADS = 8
"""Grammar rows from which on threads may pay for themselves."""

_TRIED_EVERY = 64
_KEPT = 0.8
"""Share that what was measured before has in the mean."""


class MaskPool:
    """Threads that compute masks, for as long as that turns out quicker than doing without.

    On idle cores two threads take two thirds of the time; beside a forward that keeps all cores
    busy, waiting for each other costs them a hundredfold. So both ways are measured, and the
    slower one is tried again now and then.

    Args:
        threads: How many.
        now_s: A clock.

    Attributes:
        threads: How many.
    """

    def __init__(self, threads: int = 2, *, now_s: Callable[[], float] = perf_counter) -> None:
        self.threads = threads
        self.now_s = now_s
        self._executor: LLExecutor | None = None
        self._row_s = {True: 0.0, False: 0.0}  # by whether threads did it
        self._calls = 0

    def pays(self, rows: int) -> bool:
        """Whether threads are to compute so many rows."""
        if self.threads < 2 or rows < _WORTH_THREADS:
            return False
        self._calls += 1
        better = self._row_s[True] < self._row_s[False]
        return better != (self._calls % _TRIED_EVERY == 0)

    def note(self, rows: int, seconds: float, *, threaded: bool) -> None:
        """Remember what rows took."""
        before = self._row_s[threaded] or seconds / rows
        self._row_s[threaded] = _KEPT * before + (1 - _KEPT) * seconds / rows

    def fill(self, rows: Sequence[tuple[LlguidanceState, int]], mask: MaskRows) -> None:
        """Compute the rows natively, side by side."""
        if self._executor is None:
            self._executor = LLExecutor(self.threads)
        jobs = [(state.native, index) for state, index in rows]
        self._executor.unsafe_compute_mask_ptr(
            jobs, mask.ctypes.data, mask.shape[1] * mask.itemsize, mask.shape[0]
        )


def fill_masks(
    rows: Sequence[tuple[Masking, int]], mask: MaskRows, pool: MaskPool | None = None
) -> dict[int, ConstraintError]:
    """Fill one mask row for each sequence.

    Args:
        rows: States, each with the index of its row. No state twice.
        mask: [rows, words] int32, contiguous. Rows that are not named stay as they are; a row
            whose state allows everything becomes all ones.
        pool: Threads for many rows; None computes them one by one.

    Returns:
        The rows that failed, with why: their requests end, the others go on.
    """
    failed: dict[int, ConstraintError] = {}
    grammars: list[tuple[LlguidanceState, int]] = []
    for state, index in rows:
        beneath = _beneath(state)
        if beneath is not None:
            grammars.append((beneath, index))
            continue
        try:
            if not state.fill_mask(mask[index]):
                mask[index] = -1
        except ConstraintError as wrong:
            failed[index] = wrong
    if pool is None or len(grammars) < _WORTH_THREADS:
        return failed | _alone(grammars, mask)
    threaded = pool.pays(len(grammars))
    began_s = pool.now_s()
    failed |= _threaded(grammars, mask, pool) if threaded else _alone(grammars, mask)
    pool.note(len(grammars), pool.now_s() - began_s, threaded=threaded)
    return failed


def _threaded(
    grammars: Sequence[tuple[LlguidanceState, int]], mask: MaskRows, pool: MaskPool
) -> dict[int, ConstraintError]:
    pool.fill(grammars, mask)
    return {
        index: lost_in_grammar(state.native) for state, index in grammars if state.native.is_error()
    }


def _alone(
    grammars: Sequence[tuple[LlguidanceState, int]], mask: MaskRows
) -> dict[int, ConstraintError]:
    failed: dict[int, ConstraintError] = {}
    first, row_bytes = mask.ctypes.data, mask.strides[0]  # one address for all: numpy makes it dear
    for state, index in grammars:
        try:
            state.fill_at(first + index * row_bytes, row_bytes)
        except ConstraintError as wrong:
            failed[index] = wrong
    return failed


def _beneath(state: Masking) -> LlguidanceState | None:
    """The grammar's matcher, where the mask is just its own."""
    if isinstance(state, Budgeted):
        if state.tight:
            return None
        state = state.state
    return state if isinstance(state, LlguidanceState) and not state.ended else None

"""Grammar bitmasks of all rows of a batch in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from llguidance import LLExecutor

from agentrt.base.errors import ConstraintError
from agentrt.structured.backends.llguidance_backend import LlguidanceState, matcher_error
from agentrt.structured.call_state import CallsState
from agentrt.structured.closing.budget import Budgeted
from agentrt.structured.matcher import Masking, MaskRows

_MIN_THREADED_ROWS = 8
"""Minimum number of grammar rows for threads to be faster."""

_RETRY_CALLS = 64
_OLD_WEIGHT = 0.8
"""Weight of earlier measurements in the running mean."""


class MaskPool:
    """Threads that compute grammar bitmasks, as long as they are faster than one.

    On idle cores two threads take two thirds of the time; beside a forward that keeps all cores
    busy, waiting for each other costs them a hundredfold. So both ways are measured, and the
    slower one is tried again now and then.

    Args:
        threads: Number of threads.
        now_s: Clock.

    Attributes:
        threads: Number of threads.
        now_s: Clock.
    """

    def __init__(self, threads: int = 2, *, now_s: Callable[[], float] = perf_counter) -> None:
        self.threads = threads
        self.now_s = now_s
        self._executor: LLExecutor | None = None
        self._row_s = {True: 0.0, False: 0.0}  # by use of threads
        self._calls = 0

    def should_use_threads(self, rows: int) -> bool:
        """Whether threads should compute so many rows."""
        if self.threads < 2 or rows < _MIN_THREADED_ROWS:
            return False
        self._calls += 1
        faster = self._row_s[True] < self._row_s[False]
        return faster != (self._calls % _RETRY_CALLS == 0)

    def record_time(self, rows: int, seconds: float, *, threaded: bool) -> None:
        """Record the time taken for so many rows."""
        before = self._row_s[threaded] or seconds / rows
        self._row_s[threaded] = _OLD_WEIGHT * before + (1 - _OLD_WEIGHT) * seconds / rows

    def fill_rows(
        self, rows: Sequence[tuple[LlguidanceState, int]], mask: MaskRows
    ) -> dict[int, ConstraintError]:
        """Compute the rows in the library's threads; returns the failed ones with their errors."""
        if self._executor is None:
            self._executor = LLExecutor(self.threads)
        jobs = [(state.native, index) for state, index in rows]
        self._executor.unsafe_compute_mask_ptr(
            jobs, mask.ctypes.data, mask.shape[1] * mask.itemsize, mask.shape[0]
        )
        return {index: matcher_error(native) for native, index in jobs if native.is_error()}


def fill_bitmasks(
    rows: Sequence[tuple[Masking, int]], mask: MaskRows, pool: MaskPool | None = None
) -> dict[int, ConstraintError]:
    """Fill one row of the grammar bitmask for each sequence.

    Args:
        rows: States, each with the index of its row. No state twice.
        mask: [rows, words] int32, contiguous. Other rows stay unchanged; a row becomes all ones if
            its state allows everything.
        pool: Threads for many rows; None computes them one by one.

    Returns:
        The failed rows, each with its error: their requests end, the others continue.
    """
    failed: dict[int, ConstraintError] = {}
    grammars: list[tuple[LlguidanceState, int]] = []
    for state, index in rows:
        matcher = _inner_matcher(state)
        if matcher is not None:
            grammars.append((matcher, index))
            continue
        try:
            if not state.fill_bitmask(mask[index]):
                mask[index] = -1
        except ConstraintError as wrong:
            failed[index] = wrong
    if pool is None or len(grammars) < _MIN_THREADED_ROWS:
        return failed | _fill_singly(grammars, mask)
    threaded = pool.should_use_threads(len(grammars))
    started_s = pool.now_s()
    failed |= pool.fill_rows(grammars, mask) if threaded else _fill_singly(grammars, mask)
    pool.record_time(len(grammars), pool.now_s() - started_s, threaded=threaded)
    return failed


def _fill_singly(
    grammars: Sequence[tuple[LlguidanceState, int]], mask: MaskRows
) -> dict[int, ConstraintError]:
    failed: dict[int, ConstraintError] = {}
    first, row_bytes = mask.ctypes.data, mask.strides[0]  # read once: numpy makes it slow
    for state, index in grammars:
        try:
            state.fill_bitmask_at(first + index * row_bytes, row_bytes)
        except ConstraintError as wrong:
            failed[index] = wrong
    return failed


def _inner_matcher(state: Masking) -> LlguidanceState | None:
    """The grammar's matcher, if the mask is exactly its own."""
    if isinstance(state, Budgeted):
        if state.tight:
            return None
        state = state.state
    if isinstance(state, CallsState):
        state = state.matcher
    return state if isinstance(state, LlguidanceState) and not state.ended else None
